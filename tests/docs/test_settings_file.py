"""The example of the settings file is valid, and names what an operator must set."""

import re
import shlex
from pathlib import Path

from barograph.settings import GROUPS, PREFIX, Settings

TEXT = (Path(__file__).parents[2] / "deploy/barograph.env").read_text("utf-8")


def values(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in shlex.split(text, comments=True))


def test_example_is_valid_and_so_is_the_one_for_several_hosts() -> None:
    assert Settings.from_environment(values(TEXT)).limits_use_file
    several = values(re.sub("^#(?=BAROGRAPH)", "", TEXT, flags=re.MULTILINE))
    del several["BAROGRAPH_LIMITS"]
    assert Settings.from_environment(several).sends_mail
    must_set = {PREFIX + name.upper() for name in GROUPS["must set"].model_fields}
    assert must_set - {"BAROGRAPH_PORT", "BAROGRAPH_LIMITS"} <= set(several)
