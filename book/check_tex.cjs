// Typeset formulas as the page will: {tex, pages: [[{tex, display}]]} on stdin; on stdout, for
// each page and formula, what MathJax has against it, or null.
const { readFileSync } = require("node:fs");

async function main() {
  const { tex, pages } = JSON.parse(readFileSync(0, "utf8"));
  const MathJax = await require("mathjax").init({ loader: { load: ["input/tex"] }, tex });
  const complaints = [];
  for (const formulas of pages) {
    MathJax.texReset(); // labels and numbers belong to a page
    const found = [];
    for (const formula of formulas) {
      const mathml = await MathJax.tex2mmlPromise(formula.tex, { display: formula.display });
      const error = /<merror(?:[^>]*?data-mjx-error="([^"]*)")?/.exec(mathml);
      found.push(error ? error[1] || "MathJax refuses it" : null);
    }
    complaints.push(found);
  }
  process.stdout.write(JSON.stringify(complaints));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
