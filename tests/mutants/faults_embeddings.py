"""Faults in counting company, in surprise, in singular vectors and in the geometry of vectors."""

from fault import fault

EMBEDDINGS = "attnlib/embeddings.py"
DEFINITIONS = "attnlib/definitions/of_embeddings.py"

T_EMBEDDINGS = "tests/test_embeddings.py"
T_REFUSALS = "tests/refusals/test_embeddings_refusals.py"

FAULTS = (
    fault(
        "pairs that meet again are lost in the counts",
        EMBEDDINGS,
        T_EMBEDDINGS,
        (
            "np.add.at(counts, (left[both], right[both]), 1.0)",
            "counts[left[both], right[both]] += 1.0",
        ),
    ),
    fault(
        "words outside the vocabulary close up the line",
        EMBEDDINGS,
        T_EMBEDDINGS,
        ("[row.get(word, -1) for word in words]", "[row[word] for word in words if word in row]"),
    ),
    fault(
        "surprise below chance is kept",
        EMBEDDINGS,
        T_EMBEDDINGS,
        ("np.log(np.maximum(ratio, 1.0))", "np.log(ratio)"),
    ),
    fault(
        "surprise of a word without company is 0/0",
        EMBEDDINGS,
        T_EMBEDDINGS,
        (
            "np.divide(counts * counts.sum(), chance, out=np.ones_like(counts), where=counts > 0)",
            "counts * counts.sum() / chance",
        ),
    ),
    fault(
        "negative eigenvalues come last, whatever their size",
        EMBEDDINGS,
        T_EMBEDDINGS,
        ("np.argsort(-np.abs(eigenvalues), kind=", "np.argsort(-eigenvalues, kind="),
    ),
    fault(
        "singular vectors keep the sign that the library gave them",
        EMBEDDINGS,
        T_EMBEDDINGS,
        ("return left * _signs(left) * singular", "return left * singular"),
    ),
    fault(
        "neighbours go by inner product, so that long vectors win",
        EMBEDDINGS,
        T_EMBEDDINGS,
        ("np.clip((units * units[index]).sum(1), -1.0, 1.0)", "vectors @ vectors[index]"),
    ),
    fault(
        "equal rows may have different cosines",
        EMBEDDINGS,
        T_EMBEDDINGS,
        ("(units * units[index]).sum(1)", "(units @ units[index])"),
    ),
    fault(
        "of equal cosines any may come first",
        EMBEDDINGS,
        T_EMBEDDINGS,
        (
            'others[np.argsort(-to_all[others], kind="stable")[:n]]',
            'others[np.argsort(to_all[others], kind="stable")[::-1][:n]]',
        ),
    ),
    fault(
        "the squares of long vectors overflow",
        EMBEDDINGS,
        T_EMBEDDINGS,
        ("vectors = vectors / np.where(largest == 0, 1.0, largest)", "vectors = vectors / 1.0"),
    ),
    fault(
        "the mean cosine counts every vector with itself",
        EMBEDDINGS,
        T_EMBEDDINGS,
        ("(total @ total - (units * units).sum()) / (v * (v - 1))", "total @ total / (v * v)"),
    ),
    fault(
        "the effective rank weighs with the singular values, not their squares",
        EMBEDDINGS,
        T_EMBEDDINGS,
        ("p = (sigma / sigma.max()) ** 2", "p = sigma / sigma.max()"),
    ),
    fault(
        "the directions taken off are the weakest",
        EMBEDDINGS,
        T_EMBEDDINGS,
        ("top = directions[:, ::-1][:, :n]", "top = directions[:, :n]"),
    ),
    fault(
        "one text is taken for a sequence of words, letter by letter",
        EMBEDDINGS,
        T_REFUSALS,
        ("if isinstance(words, str):", "if False:"),
    ),
    fault(
        "the gradient of a lookup keeps only the last of equal tokens",
        DEFINITIONS,
        T_EMBEDDINGS,
        ("of_table[w] += gradient", "of_table[w] = gradient"),
    ),
)
