"""What words and commands mean: functions, symbols, operators, relations, and the words an answer may be wrapped in."""

from __future__ import annotations

__all__ = ["ACCENTS", "COMMANDS", "CONNECTORS", "FILLERS", "FUNCTIONS", "HEDGES", "LAZY", "QUALIFIERS", "STRUCTURAL", "WORD_VALUES"]

_words = str.split

FUNCTIONS: dict[str, str] = {
    **{
        name: name
        for name in _words("sin cos tan cot sec csc sinh cosh tanh coth arcsin arccos arctan arccot ln log lg exp abs sgn det Re Im arg")
    },
    **{
        "tg": "tan",
        "ctg": "cot",
        "cosec": "csc",
        "asin": "arcsin",
        "acos": "arccos",
        "atan": "arctan",
        "arctg": "arctan",
        "sh": "sinh",
        "ch": "cosh",
    },
    **{"sqrt": "sqrt", "cbrt": "cbrt", "sign": "sgn", "binom": "binom"},
}
"""Spelling to function; `sqrt`, `cbrt` and `binom` here are the plain-text forms."""

LAZY: dict[str, str] = {
    **{name: name for name in _words("int iint iiint oint sum prod lim max min gcd lcm floor ceil sup inf limsup liminf")},
    "ceiling": "ceil", "mod": "mod", "bmod": "mod", "pmod": "mod", "det": "det",
}  # fmt: skip
"""Operators that restate a question rather than answer it."""

_SYMBOLS = _words(
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau upsilon phi chi psi omega "
    "Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega hbar ell nabla partial aleph"
)

COMMANDS: dict[str, tuple[str, str]] = {
    **{name: ("sym", name) for name in _SYMBOLS},
    **{name: ("fn", FUNCTIONS[name]) for name in FUNCTIONS if name not in ("sqrt", "binom", "det")},
    **{name: ("lazy", LAZY[name]) for name in LAZY if name != "inf"},
    "varepsilon": ("sym", "epsilon"), "vartheta": ("sym", "theta"), "varphi": ("sym", "phi"), "varrho": ("sym", "rho"),
    "pi": ("const", "pi"), "infty": ("const", "inf"), "infinity": ("const", "inf"), "imath": ("const", "i"),
    "cdot": ("op", "*"), "times": ("op", "*"), "ast": ("op", "*"), "bullet": ("op", "*"), "div": ("op", "/"),
    "over": ("infix", "/"), "choose": ("infix", "binom"),
    "slash": ("op", "/"),
    "le": ("rel", "<="), "leq": ("rel", "<="), "leqslant": ("rel", "<="), "leqq": ("rel", "<="), "ge": ("rel", ">="), "geq": ("rel", ">="),
    "geqslant": ("rel", ">="), "geqq": ("rel", ">="), "lt": ("rel", "<"), "gt": ("rel", ">"), "ne": ("rel", "!="), "neq": ("rel", "!="),
    "approx": ("rel", "~"), "simeq": ("rel", "~"), "sim": ("rel", "sim"), "cong": ("rel", "cong"), "equiv": ("rel", "equiv"),
    "in": ("rel", "in"),
    "notin": ("rel", "notin"), "subset": ("rel", "subset"), "subseteq": ("rel", "subset"), "parallel": ("rel", "parallel"),
    "perp": ("rel", "perp"),
    "propto": ("rel", "propto"), "to": ("rel", "to"), "rightarrow": ("rel", "to"), "mapsto": ("rel", "to"), "coloneqq": ("rel", "="),
    "cup": ("setop", "cup"), "bigcup": ("setop", "cup"), "cupdot": ("setop", "cup"), "sqcup": ("setop", "cup"), "cap": ("setop", "cap"),
    "bigcap": ("setop", "cap"), "setminus": ("setop", "minus"), "backslash": ("setop", "minus"), "smallsetminus": ("setop", "minus"),
    "pm": ("pm", "+-"), "mp": ("pm", "-+"), "land": ("word", "and"), "wedge": ("word", "and"), "lor": ("word", "or"), "vee": ("word", "or"),
    "lbrace": ("open", "\\{"), "rbrace": ("close", "\\}"), "langle": ("open", "<"), "rangle": ("close", ">"), "lbrack": ("open", "["),
    "rbrack": ("close", "]"), "lparen": ("open", "("), "rparen": ("close", ")"), "lvert": ("open", "|"), "rvert": ("close", "|"),
    "lfloor": ("open", "floor"), "rfloor": ("close", "floor"), "lceil": ("open", "ceil"), "rceil": ("close", "ceil"),
    "vert": ("bar", "|"), "mid": ("bar", "|"), "colon": ("op", ":"), "dots": ("dots", ""), "ldots": ("dots", ""), "cdots": ("dots", ""),
    "dotsc": ("dots", ""), "vdots": ("dots", ""), "emptyset": ("empty", ""), "varnothing": ("empty", ""), "circ": ("degree", ""),
    "degree": ("degree", ""), "textdegree": ("degree", ""), "textcirc": ("degree", ""), "prime": ("prime", "'"), "dollar": ("cur", "$"),
    "pounds": ("cur", "£"),
    "euro": ("cur", "€"), "yen": ("cur", "¥"), "textdollar": ("cur", "$"), "cent": ("word", "cents"), "forall": ("word", "for"),
    "exists": ("word", "exists"),
    "quad": ("gap", ""), "qquad": ("gap", ""), "neg": ("word", "not"), "lnot": ("word", "not"), "because": ("word", "because"),
    "therefore": ("word", "therefore"), "implies": ("rel", "implies"), "Rightarrow": ("rel", "implies"), "iff": ("rel", "implies"),
    "Leftrightarrow": ("rel", "implies"), "newline": ("gap", ""), "percent": ("op", "%"), "ln": ("fn", "ln"),
}  # fmt: skip
"""What a command stands for; those not listed are read by the parser (`\\frac`) or not at all."""

ACCENTS = frozenset(
    _words("vec overrightarrow overline bar hat widehat tilde widetilde dot ddot underline overleftrightarrow overset overbrace underbrace")
)

STRUCTURAL = ACCENTS | frozenset(
    _words(
        "frac dfrac tfrac cfrac sqrt binom dbinom tbinom boxed fbox begin end mathbb angle triangle measuredangle odot "
        "square color left right"
    )
)
"""Commands with arguments, read by the parser."""

CONNECTORS = {"and": "and", "or": "or", "und": "and", "plus": ""}
FILLERS = frozenset(
    _words(
        "only the is are answer answers solution solutions value values both either so thus hence therefore then we get have has "
        "it that equals equal final exactly just namely i.e simply be will must is: a an there"
    )
)
"""Words before a value that say nothing about it."""
QUALIFIERS = frozenset(_words("for where when if with given such assuming provided let since because modulo"))
"""Words that open a condition or remark after a value."""
HEDGES = frozenset(
    _words(
        "not isn't no never neither nor wrong incorrect false except unless other another maybe perhaps possibly probably might "
        "could cannot can't don't doesn't unknown unclear unsure uncertain anything everything whatever something guess guessing "
        "ignore instead rather but however else either/or don t isn n't between around approximately roughly about least most "
        "nope excluded excluding rejected fails besides than number numbers greater less more fewer under over above below"
    )
)
"""Words that take a value back, widen it or compare it: text that holds one is never read as the value alone."""

WORD_VALUES: dict[str, tuple[str, str]] = {
    "pi": ("const", "pi"), "infinity": ("const", "inf"), "inf": ("const", "inf"), "oo": ("const", "inf"), "degrees": ("degree", ""),
    "degree": ("degree", ""),
    "deg": ("degree", ""), "percent": ("op", "%"), "percentage": ("op", "%"), "pct": ("op", "%"), "union": ("setop", "cup"),
    "intersect": ("setop", "cap"),
    **{name: ("sym", name) for name in _SYMBOLS if name not in ("ell", "partial", "nabla")},
    "phi": ("sym", "phi"), "theta": ("sym", "theta"), "radians": ("word", "radians"), "rad": ("word", "radians"),
    "belongs": ("rel", "in"), "thousand": ("scale", "3"), "million": ("scale", "6"), "billion": ("scale", "9"), "times": ("op", "*"),
}  # fmt: skip
"""Words of plain text with a meaning of their own."""
