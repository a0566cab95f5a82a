"""The secret that API keys are stored under: a setting, or a file that is made once."""

from barograph.errors import ConfigurationError
from barograph.kit.secret_file import kept_secret
from barograph.settings import Settings

FILE_NAME = "key-pepper"
SIZE = 32


def load_pepper(settings: Settings) -> bytes:
    """The pepper of this instance; every process gets the same, also when all start at once.

    Raises:
        ConfigurationError: its file cannot be read or made, or holds something else.
    """
    given = settings.key_pepper.get_secret_value()
    if given:
        return given.encode()
    file = settings.data / FILE_NAME
    try:
        pepper = kept_secret(file, SIZE)
    except OSError as error:
        raise ConfigurationError(
            f"{file} cannot be used ({error.strerror}): make {settings.data} a folder that can be "
            "written, or set BAROGRAPH_KEY_PEPPER"
        ) from error
    if len(pepper) != SIZE:
        raise ConfigurationError(
            f"{file} is damaged: put back the file of {SIZE} bytes, or delete it, after which "
            "every API key stops working"
        )
    return pepper
