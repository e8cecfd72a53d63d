"""Faults in the explorers of a latent's forms and of what fits, in Python and in JavaScript."""

from fault import fault

FORMS = "attnlib/explore/latent_forms.py"
FORMULAS = "attnlib/explore/latent_formulas.py"
FORMS_JS = "attnlib/explore/latent-forms.mjs"
FITS = "attnlib/explore/what_fits.py"
FITS_JS = "attnlib/explore/what-fits.mjs"
WORDS = "attnlib/explore/words.py"
CONTROLS_JS = "attnlib/explore/controls.mjs"
CHECKS = "attnlib/explore/checks.py"

T_FORMS = "tests/test_explore_latent.py"
T_FORMS_JS = "tests/book/test_explorer_latent_js.py"
T_FITS = "tests/test_explore_fits.py"
T_FITS_JS = "tests/book/test_explorer_fits_js.py"

FAULTS = (
    fault(
        "latent explorer: ordinary heads beside it have a rotary part as well",
        FORMS,
        T_FORMS,
        ('"d": letters["n"]}', '"d": letters["n"] + letters["r"]}'),
    ),
    fault(
        "latent explorer: the crossing is one token late",
        FORMS,
        T_FORMS,
        ("-start // gained + 1", "-start // gained + 2"),
    ),
    fault(
        "latent explorer: what costs less without any token is called cheaper in the end",
        FORMS,
        T_FORMS,
        (
            "ahead = (other_growth - growth, other_fixed - fixed)",
            "ahead = (other_growth - growth, abs(other_fixed - fixed))",
        ),
    ),
    fault(
        "latent explorer: two forms that always cost the same are called different",
        FORMS,
        T_FORMS,
        ('"from": first if ahead > (0, 0) else None', '"from": first'),
    ),
    fault(
        "latent explorer: as many key/value heads, of keys alone",
        FORMS,
        T_FORMS,
        ('kept / (letters["n"] + letters["e"])', 'kept / letters["n"]'),
    ),
    fault(
        "latent explorer: the latent's cache is that of expanded keys and values",
        FORMS,
        T_FORMS,
        ('forms["absorbed"]["bytes"] * n_tokens', 'forms["expanded"]["bytes"] * n_tokens'),
        bug="B55",
    ),
    fault(
        "latent explorer: intensities are those of all heads reading their own keys",
        FORMULAS,
        T_FORMS,
        ("cost.core_intensity(form) for form in forms", "cost.core_intensity() for form in forms"),
    ),
    fault(
        "latent explorer, page: a crossing at a whole number is one token late",
        FORMS_JS,
        T_FORMS_JS,
        ("Math.floor(-start / gained) + 1", "Math.ceil(-start / gained) + 1"),
    ),
    fault(
        "latent explorer, page: the heads beside it share nothing",
        FORMS_JS,
        T_FORMS_JS,
        ("grouped: shared(letters, KV_HEADS)", "grouped: shared(letters, letters.h)"),
        bug="B59",
    ),
    fault(
        "latent explorer, page: a tie is a lead",
        FORMS_JS,
        T_FORMS_JS,
        ("gained === 0 && start === 0 ? null : first", "first"),
    ),
    fault(
        "what fits: a row is longer than its model reads",
        FITS,
        T_FITS,
        ('min(state["n_tokens"], PUBLISHED[model].context)', 'state["n_tokens"]'),
    ),
    fault(
        "what fits: the room for rows forgets the weights",
        FITS,
        T_FITS,
        ("(card - weights) // row", "card // row"),
    ),
    fault(
        "what fits: one row more is let in",
        FITS,
        T_FITS,
        ("max(0, (card - weights) // row)", "max(0, -((weights - card) // row))"),
    ),
    fault(
        "what fits: all rows share one cache",
        FITS,
        T_FITS,
        ('weights + state["n_rows"] * row', "weights + row"),
    ),
    fault(
        "what fits: a card has gigabytes of a thousand million bytes",
        FITS,
        T_FITS,
        ("GIB = 2**30", "GIB = 10**9"),
    ),
    fault(
        "what fits: a break-even beyond the context of both is told",
        FITS,
        T_FITS,
        ("(pair, first) if first <= up_to else (pair[::-1], 1)", "(pair, first)"),
    ),
    fault(
        "what fits, page: a break-even beyond the context of both is told",
        FITS_JS,
        T_FITS_JS,
        ("from !== null && from <= upTo", "from !== null"),
    ),
    fault(
        "what fits: who keeps less is compared up to the longer context",
        FITS,
        T_FITS,
        (
            "up_to = min(PUBLISHED[name].context",
            "up_to = max(PUBLISHED[name].context",
        ),
    ),
    fault(
        "what fits, page: a break-even forgets the windows",
        FITS_JS,
        T_FITS_JS,
        ("const ends = [0, ...windows].sort((a, b) => b - a);", "const ends = [0];"),
        bug="B59",
    ),
    fault(
        "what fits, page: a latent is counted with the formula of shared heads",
        FITS_JS,
        T_FITS_JS,
        ("(latent ? cacheAbsorbed : cacheShared)", "(latent ? cacheShared : cacheAbsorbed)"),
        bug="B57",
    ),
    fault(
        "what fits, page: a row that does not fit is rounded to one that does",
        FITS_JS,
        T_FITS_JS,
        ("Math.floor((card - weights) / row)", "Math.round((card - weights) / row)"),
    ),
    fault(
        "a number of a list loses its fraction",
        CHECKS,
        T_FITS,
        ("return options[options.index(value)]", "return int(value)"),
    ),
    fault(
        "bytes with a binary prefix are divided by a thousand",
        WORDS,
        T_FITS,
        ("amount, power = amount / 1024, power + 1", "amount, power = amount / 1000, power + 1"),
    ),
    fault(
        "a number of bytes in JavaScript stays in bytes just below the next prefix",
        CONTROLS_JS,
        T_FITS_JS,
        ("while (amount >= 1023.5", "while (amount >= 1024"),
    ),
)
