"""Text that a person gives for a trail that nobody can mend later (pure)."""


def one_line(name: str, text: str, longest: int) -> str:
    """The text without space around it.

    Raises:
        ValueError: it is empty, too long, of several lines, or holds what cannot be printed, such
            as bytes that are no UTF-8.
    """
    line = text.strip()
    if not 1 <= len(line) <= longest or not line.isprintable():
        raise ValueError(f"'{name}' must be one line of 1 to {longest} printable characters")
    return line
