"""Exit codes, and text from strangers."""

FAILED, WRONG, INTERRUPTED = 1, 2, 130
"""Something that was run has failed; the command or its input makes no sense; Ctrl-C."""


def epilog(*examples: str) -> str:
    """What ends the help of a command: examples, which are not to be wrapped, and the exit codes."""
    lines = "".join(f"\n  {example}" for example in examples)
    return (f"\b\nExamples:{lines}\n\n" if examples else "") + (
        "Exit codes: 0 done; 1 a run stopped because of failures, or the doctor found something; 2 the command or "
        "its input makes no sense; 130 interrupted by Ctrl-C (143 by SIGTERM)."
    )


def visible(text: str) -> str:
    """Text that nobody vouches for: all that a terminal would obey, or not show, is made visible."""
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)
