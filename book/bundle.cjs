// Bundle the page's scripts and style sheets: {script, sheets, into} on stdin.
const { readFileSync } = require("node:fs");
const { buildSync } = require("esbuild");

const { script, sheets, into } = JSON.parse(readFileSync(0, "utf8"));
const common = { bundle: true, minify: true, charset: "utf8", target: "es2020", logLevel: "error" };

buildSync({ ...common, entryPoints: [script], format: "iife", outfile: `${into}/book.js` });
buildSync({
  ...common,
  stdin: {
    contents: sheets.map((path) => `@import ${JSON.stringify(path)};`).join("\n"),
    loader: "css",
    resolveDir: __dirname,
  },
  outfile: `${into}/book.css`,
});
process.stdout.write("null");
