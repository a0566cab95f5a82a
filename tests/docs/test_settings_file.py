"""The example of the settings file is valid, and names what an operator must set."""

import re
import shlex
from pathlib import Path

from barograph.settings import GROUPS, PREFIX, Settings


def test_example_is_valid_on_one_host_and_on_several() -> None:
    text = (Path(__file__).parents[2] / "deploy/barograph.env").read_text("utf-8")
    both = [text, re.sub("^#(?=BAROGRAPH)", "", text, flags=re.MULTILINE)]
    one, several = (
        dict(re.findall("(.*?)=(.*)", "\n".join(shlex.split(each, comments=True)))) for each in both
    )
    assert Settings.from_environment(one).limits_use_file
    assert Settings.from_environment(several).sends_mail
    must_set = {PREFIX + name.upper() for name in GROUPS["must set"].model_fields}
    assert must_set - {"BAROGRAPH_PORT"} <= set(several)
