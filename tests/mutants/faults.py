"""The possible faults in a source file, each as edits of one line that put it behind a switch (runtime.h)."""
import bisect
import dataclasses
import re

INFIX = {"<": "Less", "<=": "LessEqual", ">": "Greater", ">=": "GreaterEqual", "==": "Equal", "!=": "Unequal",
         "+": "Plus", "-": "Minus", "*": "Times", "/": "Over"}
WRONG = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+", "*": "/", "/": "*"}
FIRST = {"<": "< >", "<=": "< >", ">": "< >", ">=": "< >", "==": "== ==", "!=": "== ==", "+": "+ +", "-": "+ +",
         "*": "* *", "/": "* *"}
# Names that are replaced by each other, as functions of the same signature.
PAIRS = [("sum", "mean"), ("without_first", "without_last"), ("front", "back"), ("floor", "ceil"),
         ("lower_bound", "upper_bound"), ("Reduction::sum", "Reduction::mean")]
NAMES = [names for a, b in PAIRS for names in ((a, b), (b, a))]
# Lines without faults: compile-time constants, declarations, lists of fields with their help texts, and code that
# affects only when something is done, not what: waiting, prefetching, memory hints.
NEVER = re.compile(r"^\s*(#|using |namespace|template|static_assert|static constexpr|inline constexpr|enum |case "
                   r"|friend |requires|struct |class |public:|private:|HWY_|v\(|v\.added|line\()|reserve\(|constinit|SEPPO_"
                   r"|ASAN_|Prefetch|madvise|\bspin\b|fetches")
STATEMENT = re.compile(r"^(\s+)((?:[\w:.\[\]()*>&]|->|--|\+\+|<\w+>\()[\w:.\[\]()*<>&-]*"
                       r"(?: [+*/|&-]?= .*|\(.*\))?);\s*$")
DEFAULT = re.compile(r"^\s+[\w:<>, ]+ \w+ = [^;(]+;")


@dataclasses.dataclass
class Fault:
    path: str
    line: int    # from 0
    old: str     # the line
    new: str     # the line with the fault
    edits: list  # (begin, end, text), where {n} in text is the fault's number
    kind: str
    number: int = 0

    def spans(self):
        return [(b, e) for b, e, _ in self.edits]


def masked(lines):
    """The lines with comments and literals blanked out."""
    text, result, i, state = "\n".join(lines), [], 0, None
    while i < len(text):
        c, two = text[i], text[i:i + 2]
        if state is None:
            if two in ("//", "/*"):
                state = two
                result.append("  ")
                i += 2
                continue
            raw = re.match(r'R"(\w*)\(', text[i:]) if c == "R" else None
            if raw:
                end = text.find(")" + raw[1] + '"', i) + len(raw[1]) + 2
                result.append(re.sub(r"[^\n]", '"', text[i:end]))
                i = end
                continue
            if c == '"' or (c == "'" and not (i and text[i - 1].isalnum())):
                state = c
                result.append('"')
            else:
                result.append(c)
        elif state == "//":
            state = None if c == "\n" else state
            result.append(c if c == "\n" else " ")
        elif state == "/*":
            if two == "*/":
                state = None
                result.append("  ")
                i += 2
                continue
            result.append(c if c == "\n" else " ")
        elif c == "\\":
            result.append('""')
            i += 2
            continue
        else:
            if c == state:
                state = None
            result.append('"' if c != "\n" else c)
        i += 1
    return "".join(result).split("\n")


def closing(code, at):
    """Where the bracket that opens at `at` is closed, or None if not on this line."""
    depth = 0
    for i in range(at, len(code)):
        depth += code[i] in "([{"
        depth -= code[i] in ")]}"
        if depth == 0:
            return i
    return None


def operands(code, begin, end, operator):
    """The operands of && or || at code[begin:end] as (from, to), if both are entirely on this line."""
    stops = {"&&": r"\|\||\?|:(?!:)|,|;|(?<![=!<>+*/-])=(?!=)|\breturn\b|\bif\b|\bwhile\b"}
    stops["||"] = stops["&&"].replace(r"\|\||", "")
    left, depth, i = None, 0, begin - 1
    while i >= 0 and left is None:
        if code[i] in ")]}":
            depth += 1
        elif code[i] in "([{":
            depth -= 1
            if depth < 0:
                left = i + 1
        elif depth == 0:
            is_part = code[i:i + 2] == "==" or code[i - 1:i + 1] == "::"
            if re.search(rf"(?:{stops[operator]})$", code[:i + 1]) and not is_part:
                left = i + 1
        i -= 1
    right, depth, i = None, 0, end
    while i < len(code) and right is None:
        if code[i] in "([{":
            depth += 1
        elif code[i] in ")]}":
            depth -= 1
            if depth < 0:
                right = i
        elif depth == 0 and re.compile(stops[operator] + r"|\|\||&&").match(code, i):
            if not (code[i] == ":" and code[i - 1] == ":"):
                right = i
        i += 1
    if left is None or right is None or not code[left:begin].strip() or not code[end:right].strip():
        return None
    left += len(code[left:begin]) - len(code[left:begin].lstrip())
    return (left, begin), (end, right)


def faults_of_line(path, number, line, code, before, is_header):
    def fault(kind, edits, plain):
        """`plain`: the edits (begin, end, text) that make the line as a programmer would have written the fault."""
        new = line
        for begin, end, text in sorted(plain, reverse=True):
            new = new[:begin] + text + new[end:]
        return Fault(path, number, line, new, edits, kind)

    for m in re.finditer(r"(?<=[\w\])\"]) (<=|>=|==|!=|<|>|\+|-|\*|/) (?=[\w(\"!*&:{-])", code):
        op = m[1]
        first, second = FIRST[op].split()
        yield fault("operator", [(m.start(1), m.end(1), f"{first} seppo_mutant::{INFIX[op]}{{{{{{n}}}}}} {second}")],
                    [(m.start(1), m.end(1), WRONG[op])])
    for m in re.finditer(r"(?<![\w.'])(\d+)(?![\w.'])", code):
        value = int(m[1])
        for other in ({0: [1], 1: [0, 2]}.get(value, [value + 1]) if value < 10**6 else []):
            yield fault("number", [(m.start(), m.end(), f"(seppo_mutant::on({{n}}) ? {other} : {value})")],
                        [(m.start(), m.end(), str(other))])
    for m in re.finditer(r"\b(true|false)\b", code):
        yield fault("flag", [(m.start(), m.end(), f"(seppo_mutant::on({{n}}) != {m[1]})")],
                    [(m.start(), m.end(), "false" if m[1] == "true" else "true")])
    for m in re.finditer(r"\bstd::(min|max)\((?!\{)", code):
        name = m[1].capitalize()
        yield fault("extreme", [(m.start(), m.end() - 1, f"seppo_mutant::{name}{{{{{{n}}}}}}")],
                    [(m.start(), m.end() - 1, "std::" + {"min": "max", "max": "min"}[m[1]])])
    for m in re.finditer(r"((?:\w+(?:\.|->|::))*\w+)\(([A-Za-z_][\w.]*), ([A-Za-z_][\w.]*)\)", code):
        if m[2] != m[3] and not re.match(r"(if|for|while|switch|return|([\w:]+::)?(Mul|Add|max|min|Max|Min|swap))$", m[1]):
            swapped = f"{m[1]}({m[3]}, {m[2]})"
            yield fault("arguments", [(m.start(), m.end(), f"(seppo_mutant::on({{n}}) ? {swapped} : {m[0]})")],
                        [(m.start(), m.end(), swapped)])
    for m in re.finditer(r"(?<=\w)\[([a-z_]\w*)\]", code):
        if not re.match(r"^\s*(auto|const auto)", code):
            wrong = f"seppo_mutant::on({{n}}) ? decltype({m[1]} + 0)(0) : {m[1]}"
            yield fault("index", [(m.start(1), m.end(1), wrong)], [(m.start(1), m.end(1), "0")])
    for name, other in NAMES:
        for m in re.finditer(rf"(?<![\w]){name}(?=\()" if "::" not in name else rf"\b{name}\b", code):
            if "::" in name:
                yield fault("name", [(m.start(), m.end(), f"(seppo_mutant::on({{n}}) ? {other} : {name})")],
                            [(m.start(), m.end(), other)])
            elif m.start() and code[m.start() - 1] in ".>":
                end = closing(code, m.end())
                begin = re.search(r"[\w\])(\[.]*(?:->)?$", code[:m.start()])
                if end is None or not re.match(r"\w+(\.|->)$", begin[0]):
                    continue
                call = code[m.end():end + 1]
                yield fault("name", [(m.start() - len(begin[0]), end + 1,
                                      f"(seppo_mutant::on({{n}}) ? {begin[0]}{other}{call} : {begin[0]}{name}{call})")],
                            [(m.start(), m.end(), other)])
            elif not re.search(r"[\w>&*] $", code[:m.start()]) or re.search(r"\breturn $", code[:m.start()]):
                scope = re.search(r"(\w+::)*$", code[:m.start()])[0]
                yield fault("name", [(m.start() - len(scope), m.end(),
                                      f"[&](auto&&... a) {{{{ return seppo_mutant::on({{n}}) ? {scope}{other}(a...) : "
                                      f"{scope}{name}(a...); }}}}")], [(m.start(), m.end(), other)])
    for m in re.finditer(r" (&&|\|\|) ", code):
        found = operands(code, m.start(), m.end(), m[1])
        if found:
            (left, _), (_, right) = found
            name = "both" if m[1] == "&&" else "either"
            yield fault("logic", [(left, left, f"seppo_mutant::{name}({{n}}, bool("),
                                  (m.start(), m.end(), "), [&] {{ return bool("), (right, right, "); }})")],
                        [(m.start(1), m.end(1), "||" if m[1] == "&&" else "&&")])
    for m in re.finditer(r"\b(?:if|while) (\()", code):
        end = closing(code, m.start(1))
        if end and ";" not in code[m.end():end]:
            yield fault("condition",
                        [(m.end(), m.end(), "seppo_mutant::on({n}) != static_cast<bool>("), (end, end, ")")],
                        [(m.end(), m.end(), "!("), (end, end, ")")])
    for m in re.finditer(r" [+-]= ", code):
        end = re.search(r"[;,]|\)$", code[m.end():])
        stop = m.end() + end.start() if end else None
        if stop and code[m.end():stop].count("(") == code[m.end():stop].count(")"):
            yield fault("operator", [(m.end(), m.end(), "seppo_mutant::negative({n}, "), (stop, stop, ")")],
                        [(m.start() + 1, m.start() + 2, "-" if m[0][1] == "+" else "+")])
    for m in re.finditer(r"\b(break|continue);", code):
        yield fault("statement", [(m.start(), m.end(), f"{{{{ if (!seppo_mutant::on({{n}})) {m[1]}; }}}}")],
                    [(m.start(), m.end(), ";")])
    m = STATEMENT.match(code)
    begins = re.search(r"([;{})]|else|:)\s*$", before)
    if m and begins and not re.match(r"(return|const|auto|throw|delete)\b", m[2]):
        yield fault("statement",
                    [(m.start(2), m.start(2), "seppo_mutant::on({n}) ? void() : void("), (m.end(2), m.end(2), ")")],
                    [(m.start(2), m.end(2), "")])


def faults_of(path, text):
    lines = text.split("\n")
    before = "{"
    depth_of_constexpr = None
    depth = 0
    for number, (line, code) in enumerate(zip(lines, masked(lines))):
        if not code.strip():
            continue
        if re.search(r"\bconstexpr\b", code) and depth_of_constexpr is None and code.rstrip().endswith("{"):
            depth_of_constexpr = depth
        depth += code.count("{") - code.count("}")
        inside = depth_of_constexpr is not None
        if inside and depth <= depth_of_constexpr:
            depth_of_constexpr = None
        is_header = path.endswith(".h")
        if not (inside or NEVER.search(code) or "constexpr" in code or (is_header and DEFAULT.match(code))):
            yield from faults_of_line(path, number, line, code, before, is_header)
        before = code


def compatible(chosen):
    """Those of a line's faults that can be planted together, because their edits do not overlap."""
    kept, touched = [], []
    for fault in chosen:
        spans = fault.spans()
        if all(e <= b2 or e2 <= b for b, e in spans for b2, e2 in touched) and not any(
                b == e and (b, e) in touched for b, e in spans):
            kept.append(fault)
            touched += spans
    return kept


def with_switches(text, faults):
    """The source with all of these faults, each behind its switch."""
    lines = text.split("\n")
    edits = {}
    for fault in faults:
        for begin, end, insert in fault.edits:
            edits.setdefault(fault.line, []).append((begin, end, insert.format(n=fault.number)))
    for number, of_line in edits.items():
        for begin, end, insert in sorted(of_line, key=lambda e: (e[0], e[1]), reverse=True):
            lines[number] = lines[number][:begin] + insert + lines[number][end:]
    return "\n".join(lines)
