"""Who subscribers are: the identity provider whose bearer tokens the service accepts."""

from typing import Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from barograph.settings.values import HTTP_ADDRESS, Group, require_safe


class Identity(Group):
    """The identity provider of subscribers. Without one, no bearer token is accepted."""

    identity: Literal["none", "supabase", "oidc"] = Field(
        "none",
        description="Identity provider for bearer tokens: `supabase`, `oidc` (OpenID Connect) or "
        "`none`. See [recipes](identity.md).",
    )
    identity_url: str = Field(
        "",
        description="URL of the identity provider: the project for `supabase`, the issuer for "
        "`oidc`, exactly as its tokens name it. It must start with `https://` unless "
        "the provider runs on this machine. An issuer at a public address can't name "
        "private addresses.",
    )
    identity_audience: str = Field(
        "authenticated", min_length=1, description="Audience that a bearer token must name."
    )
    identity_audience_claim: str = Field(
        "aud",
        min_length=1,
        description="Claim of a bearer token that must name that audience, such as `client_id` "
        "for AWS Cognito. Any other claim than `aud` must be exactly the audience.",
    )
    identity_api_key: SecretStr = Field(
        SecretStr(""),
        description="Publishable key (or older anon key) of the `supabase` project.",
    )
    identity_email_claim: str = Field(
        "email_verified",
        min_length=1,
        description="Claim of an `oidc` provider that is `true` for a confirmed e-mail address.",
    )
    identity_claims: Literal["token", "userinfo", "userinfo-text"] = Field(
        "token",
        description="Where an `oidc` provider puts that claim: in the access `token`, or at its "
        '`userinfo` endpoint; `userinfo-text` also accepts the text `"true"` there.',
    )

    @field_validator("identity_url")
    @classmethod
    def _issuer(cls, value: str) -> str:
        """Allow a trailing slash: with and without it are different issuers."""
        if value and HTTP_ADDRESS.fullmatch(value.removesuffix("/")) is None:
            raise ValueError("an https:// address is needed")
        return require_safe(value, "tokens are sent there")

    @model_validator(mode="after")
    def _identity_has_an_address(self) -> Self:
        if (self.identity == "none") != (not self.identity_url):
            raise ValueError(
                "BAROGRAPH_IDENTITY (supabase or oidc) and BAROGRAPH_IDENTITY_URL go together"
            )
        if self.identity == "supabase" and not self.identity_api_key.get_secret_value():
            raise ValueError(
                "BAROGRAPH_IDENTITY=supabase needs BAROGRAPH_IDENTITY_API_KEY, the project's "
                "publishable or anon key: the provider answers no request without it"
            )
        return self
