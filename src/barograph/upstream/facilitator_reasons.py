"""What a facilitator's reasons mean: whose fault it is, and whether money can have moved (pure).

The words come from the Go, TypeScript and Python code of https://github.com/coinbase/x402 and from
Coinbase's facilitator. Most exist with and without the prefix of the `exact` scheme on EVM; the
tables list them without it.
"""

from typing import Final, Literal

Fault = Literal["payer", "ours", "unclear", "unknown"]
"""`payer`: the payment can't be used. `ours`: our terms or configuration, which the payer can't
change. `unclear`: the facilitator could not find out. `unknown`: a word that we have never seen."""


def _table(text: str) -> frozenset[str]:
    return frozenset(text.split())


OUR_TERMS: Final = _table("""
    asset_not_deployed_contract eip3009_not_supported extra_field failed_to_get_asset_info
    failed_to_get_network_config invalid_network invalid_payment_requirements invalid_scheme
    invalid_x402_version missing_eip712_domain network_mismatch
    payload_authorization_to_address_kyt required_amount scheme token_name_mismatch
    token_version_mismatch unsupported_network unsupported_scheme
""")
"""`to_address_kyt` is about the address that we are paid at."""

OUR_PREFIX: Final = "invalid_exact_evm_server_"
"""Every reason that begins so is about our terms. Without `invalid_exact_evm_`, "server" means the
facilitator."""

CANNOT_TELL: Final = _table("""
    balance_check_failed duplicate_settlement invalid_transaction_state settlement_encoded
    settlement_failed settlement_pending smart_wallet_deployment_failed transaction_failed
    transaction_state verification_failed
""")
"""Reasons of a facilitator that could not check the payment, or that may already be settling it."""

CANNOT_TELL_PARTS: Final = _table("""
    rpc timeout timed_out unavailable unreachable connection internal unexpected server_error
    network scheme requirements rate_limit too_many_requests try_again failed_to_
""")
"""Parts of other reasons with the same meaning, or about terms that only we set."""

MAY_HAVE_MOVED: Final = _table("""
    client_amount client_failed_to_sign_authorization client_failed_to_sign_permit2_authorization
    insufficient_allowance nonce_already_used
""")
"""Reasons about the payment that don't rule out an earlier attempt whose answer was lost."""

TRUE_AFTERWARDS: Final = _table("""
    insufficient_balance insufficient_funds payload_authorization_valid_before
""")
"""Reasons that a facilitator may also give after it moved the money: the wallet is empty because it
paid, or the proof expired because the chain was slow. The chain shows which."""

NOTHING_MOVED: Final = _table("""
    authorization_value failed_to_parse_signature invalid_payload invalid_signature payload
    payload_authorization_from_address_kyt payload_authorization_typed_data_message
    payload_authorization_valid_after payload_authorization_value
    payload_authorization_value_mismatch payload_authorization_value_too_low
    payload_missing_signature payload_recipient_mismatch payload_signature payload_signature_address
    payload_undeployed_smart_wallet recipient_mismatch signature signature_format
""")
"""Reasons for which a facilitator sends no transaction, so that no money can have moved.

A used nonce is not among them, nor a duplicate, a failed transaction or a failed simulation: they
may follow from an earlier attempt whose answer was lost. The chain decides."""

NEVER_MOVES: Final = NOTHING_MOVED - {"payload_authorization_from_address_kyt"}
"""Reasons that also rule out an earlier attempt. The screening of an address may change."""

OF_THE_PAYER: Final = MAY_HAVE_MOVED | TRUE_AFTERWARDS | NOTHING_MOVED
"""Reasons about the payment, although a part of some says otherwise."""

_PREFIX = "invalid_exact_evm_"
_SIMULATION = "simulation_failed"
_REVERT = "revert"


def fault_of(reason: object, message: object = None) -> Fault:
    """Whose fault a refusal is. `message` is the facilitator's own explanation, if it gives one."""
    name = bare(reason)
    if name in OUR_TERMS or _words(reason).startswith(OUR_PREFIX):
        return "ours"
    if name in OF_THE_PAYER:
        return "payer"
    if _SIMULATION in name:
        # The contract refuses with a revert; anything else means that the chain failed.
        return "payer" if _REVERT in name or _REVERT in _words(message) else "unclear"
    if name in CANNOT_TELL or any(part in name for part in CANNOT_TELL_PARTS):
        return "unclear"
    return "unknown"


def bare(reason: object) -> str:
    """A reason as the tables have it."""
    return _words(reason).removeprefix(_PREFIX)


def _words(reason: object) -> str:
    """A reason as one lower-case word; some facilitators write sentences."""
    return "_".join(reason.lower().split()) if isinstance(reason, str) else ""
