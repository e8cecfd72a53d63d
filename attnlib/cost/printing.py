r"""Formulas as JavaScript, for the explorers.

Source   this book
Chapter  chapters/counting-cost.md
Axes     attnlib/axes.py

Products and sums of whole numbers are exact in JavaScript while every partial result stays below
2⁵³. So a division comes last: N(N + 1)/2 is exact, and half of N times N + 1 need not be.
"""

import sympy as sp
from sympy.printing.jscode import JavascriptCodePrinter
from sympy.printing.precedence import PRECEDENCE


class _Printer(JavascriptCodePrinter):
    """Squares as products: exact to one rounding, and no engine's Math.pow enters."""

    def _print_Pow(self, expression: sp.Pow) -> str:
        if expression.exp == 2:
            base = self.parenthesize(expression.base, PRECEDENCE["Atom"], strict=True)
            return f"({base} * {base})"
        return super()._print_Pow(expression)

    def _print_Mul(self, expression: sp.Mul) -> str:
        coefficient, rest = expression.as_coeff_Mul()
        if not coefficient.is_Rational or coefficient.is_Integer or rest.is_number:
            return super()._print_Mul(expression)
        numerator = self.parenthesize(coefficient.p * rest, PRECEDENCE["Mul"], strict=True)
        return f"{numerator}/{coefficient.q}"


def javascript(expression: sp.Expr) -> str:
    """Write an expression in JavaScript, in the same letters.

    Args:
        expression: Of what `sympy.jscode` knows.

    Example:
        >>> N, h = sp.symbols("N h", integer=True)
        >>> javascript(h * N * (N + 1) / 2), javascript(h**2)
        ('N*h*(N + 1)/2', '(h * h)')
        >>> javascript(sp.Min(N, h))
        'Math.min(N, h)'
    """
    return " ".join(_Printer().doprint(expression).split())  # jscode spreads a Piecewise over lines
