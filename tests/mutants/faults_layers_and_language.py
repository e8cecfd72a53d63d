"""Faults in the definitions of layers and of language, and in their judges."""

from fault import fault

LAYERS = "attnlib/definitions/of_layers.py"
LANGUAGE = "attnlib/definitions/of_language.py"
J_LAYERS = "attnlib/exercises/encoder_decoder.py"
J_LANGUAGE = "attnlib/exercises/language_models.py"

T_LAYERS = "tests/test_definitions_of_layers.py"
T_LANGUAGE = "tests/test_definitions_of_language.py"
T_J_LAYERS = "tests/test_exercises_of_layers.py"
T_J_LANGUAGE = "tests/test_exercises_of_language.py"

FAULTS = (
    # --- layers -------------------------------------------------------------------------------
    fault(
        "the variance of a layer norm divides by one less",
        LAYERS,
        T_LAYERS,
        (
            "variance = sum((x_i - mean) ** 2 for x_i in x) / len(x)",
            "variance = sum((x_i - mean) ** 2 for x_i in x) / (len(x) - 1)",
        ),
    ),
    fault(
        "the Jacobian of layer norm takes the mean as a constant",
        LAYERS,
        T_LAYERS,
        ("((i == j) - 1 / m - z[i] * z[j] / m)", "((i == j) - z[i] * z[j] / m)"),
    ),
    fault(
        "the Jacobian of layer norm forgets ε in the normed row",
        LAYERS,
        T_LAYERS,
        (
            "m, z = len(x), layer_norm(x, epsilon=epsilon)",
            "m, z = len(x), layer_norm(x, epsilon=0.0)",
        ),
    ),
    fault(
        "the other half of a gated network is bent too",
        LAYERS,
        T_LAYERS,
        ("activation(row @ g) * (row @ u)", "activation(row @ g) * activation(row @ u)"),
    ),
    fault(
        "a pre-norm block adds to the normed rows",
        LAYERS,
        T_LAYERS,
        (
            "return x + sub_layer(layer_norm(x, epsilon=epsilon))",
            "return layer_norm(x, epsilon=epsilon) + sub_layer(layer_norm(x, epsilon=epsilon))",
        ),
    ),
    fault(
        "the keys of cross-attention come from the decoder",
        LAYERS,
        T_LAYERS,
        ("read @ w_k[i]", "x @ w_k[i]"),
    ),
    fault(
        "Dobrushin's coefficient is without its half",
        LAYERS,
        T_LAYERS,
        ("float(max(distances) / 2)", "float(max(distances))"),
    ),
    fault(
        "the factors of a recurrent Jacobian stand in reverse order",
        LAYERS,
        T_LAYERS,
        (
            "np.diag(1 - h * h) @ np.asarray(w_h) @ product",
            "product @ np.diag(1 - h * h) @ np.asarray(w_h)",
        ),
    ),
    fault(
        "the forget gate of an LSTM is its input gate",
        LAYERS,
        T_LAYERS,
        ("c = _logistic(f) * c", "c = _logistic(i) * c"),
    ),
    # --- language -----------------------------------------------------------------------------
    fault(
        "a token is asked for after itself",
        LANGUAGE,
        T_LANGUAGE,
        ("probabilities_of_next(tokens[:t])", "probabilities_of_next(tokens[: t + 1])"),
    ),
    fault(
        "padding is left out of the sum of losses and stays in their number",
        LANGUAGE,
        T_LANGUAGE,
        ("float(sum(surprises) / len(surprises))", "float(sum(surprises) / len(targets))"),
        bug="B93",
    ),
    fault(
        "bits are nats",
        LANGUAGE,
        T_LANGUAGE,
        ("nats / (n_bytes * math.log(2))", "nats / n_bytes"),
    ),
    fault(
        "top-p leaves out the token that crosses the mass",
        LANGUAGE,
        T_LANGUAGE,
        ("if so_far >= mass and", "if so_far + p[i] > mass and"),
    ),
    fault(
        "top-p keeps one token more where the mass is met exactly",
        LANGUAGE,
        T_LANGUAGE,
        ("if so_far >= mass and", "if so_far > mass and"),
    ),
    fault(
        "a mass of one loses what rounding hides",
        LANGUAGE,
        T_LANGUAGE,
        ("if so_far >= mass and mass < 1:", "if so_far >= mass:"),
    ),
    fault(
        "of equal tokens the higher comes first",
        LANGUAGE,
        T_LANGUAGE,
        ("key=lambda i: (-p[i], i)", "key=lambda i: (-p[i], -i)"),
    ),
    fault(
        "a token at the threshold of min-p is left out",
        LANGUAGE,
        T_LANGUAGE,
        ("if p[i] >= share * largest", "if p[i] > share * largest"),
    ),
    fault(
        "Adam has one moment",
        LANGUAGE,
        T_LANGUAGE,
        ("n_parameters * 2 * bytes_per_moment", "n_parameters * bytes_per_moment"),
    ),
    fault(
        "the backward pass costs as much as the forward pass",
        LANGUAGE,
        T_LANGUAGE,
        ("forward, backward = 2, 4", "forward, backward = 2, 2"),
    ),
    # --- judges -------------------------------------------------------------------------------
    fault(
        "the judge wants a gated network that is too wide",
        J_LAYERS,
        T_J_LAYERS,
        ("definition=lambda f: 2 * f // 3", "definition=lambda f: -(-2 * f // 3)"),
    ),
    fault(
        "the judge of cross-attention takes a causal mask for right",
        J_LAYERS,
        T_J_LAYERS,
        (
            "    definition=definitions.cross_attention,",
            "    definition=_under(definitions.causal_mask),",
        ),
    ),
    fault(
        "the judge of the loss has no padding",
        J_LANGUAGE,
        T_J_LANGUAGE,
        (
            '"is_target": np.array(is_target, dtype=bool)',
            '"is_target": np.ones(len(is_target), dtype=bool)',
        ),
    ),
    fault(
        "no case of the judge of top-p meets the mass exactly",
        J_LANGUAGE,
        T_J_LANGUAGE,
        ("[0.25, 0.5, 0.125, 0.125], mass=0.75", "[0.25, 0.5, 0.125, 0.125], mass=0.74"),
    ),
)
