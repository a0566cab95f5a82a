"""The base of every JSON body."""

from pydantic import BaseModel, ConfigDict


class WireModel(BaseModel):
    """A body: nothing unexpected gets in, and its members keep their order."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def encode(self) -> bytes:
        """The body as it goes over the wire: UTF-8 and compact."""
        return self.__pydantic_serializer__.to_json(self)


class ErrorBody(WireModel):
    """What every answer other than success says."""

    error: str
