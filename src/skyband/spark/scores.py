"""Score text: a stub until written."""


def suggestion(by: str) -> str | None:
    return None
