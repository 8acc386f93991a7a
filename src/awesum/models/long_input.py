"""Loading the models that read a document as one long input, and what they take to write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from awesum.errors import AwesumError
from awesum.loading import config_of, loading, refuse_wrong_weights

Check = Callable[[str, str], None]
"""Refuses the name of a model by its type."""
UNKNOWN_LENGTH = 16_384
"""Tokens of a document for which memory is estimated where a model has no limit."""


def load_config(kind: Any, name: str, check: Check, **changes: Any) -> Any:
    """The configuration of what `load` loads."""
    with loading(name) as (source, options):
        return config_from(kind, _saved(source, options, name, check), changes)


def load(kind: Any, name: str, check: Check, *, dtype: Any = None, **changes: Any) -> Any:
    """A model of class `kind`: one that was saved, or a pretrained one with what `changes` add to its configuration.

    A class that can be made from another family of models has `convert`.
    """
    with loading(name, kind="a folder with config.json and safetensors weights") as (source, options):
        saved = _saved(source, options, name, check)
        config = config_from(kind, saved, changes)
        loaded_as = kind
        if saved["model_type"] != config.model_type and hasattr(kind, "convert"):
            loaded_as = kind.convertible
        options = {**options, "dtype": dtype, "use_safetensors": True, "output_loading_info": True}
        own = config if loaded_as is kind else config_from(loaded_as, saved, {})
        try:
            model, report = loaded_as.from_pretrained(source, config=own, ignore_mismatched_sizes=True, **options)
        except OSError as error:
            if "safetensors" in str(error):
                raise AwesumError(
                    f"{name} has no safetensors weights, and others are not loaded: give another --base, or save it "
                    "with safetensors"
                ) from error
            raise
        is_new = bool(saved["model_type"] != own.model_type)
        _check_complete(name, report, getattr(loaded_as, "new_weights", ()) if is_new else ())
        if is_new and hasattr(model, "start_new_weights"):
            model.start_new_weights()
        model = model if loaded_as is kind else kind.convert(model, config)
        if model.generation_config.decoder_start_token_id is None:
            model.generation_config.decoder_start_token_id = model.config.decoder_start_token_id
        return model


def make_blank(kind: Any, saved: Mapping[str, Any], changes: Mapping[str, Any]) -> Any:
    """A model as `load` would give it, with new weights."""
    return kind(config_from(kind, saved, changes))


def _saved(source: Any, options: dict[str, Any], name: str, check: Check) -> dict[str, Any]:
    saved = config_of(source, options)
    check(name, str(saved.get("model_type")))
    return saved


def config_from(kind: Any, saved: Mapping[str, Any], changes: Mapping[str, Any]) -> Any:
    """The configuration of a model of class `kind` that starts from one with the configuration `saved`."""
    config_class = kind.config_class
    if saved["model_type"] != config_class.model_type and hasattr(kind, "converted_config"):
        saved = kind.converted_config(saved)
    return config_class(**{**saved, "model_type": config_class.model_type, **changes})


def _check_complete(name: str, report: Mapping[str, Any], new: Any) -> None:
    """Refuse weights that would be left untrained; only a plain model may lack those that the class adds."""
    wrong = {
        "of another size": {key for key, *_ in report["mismatched_keys"]},
        "missing": {key for key in report["missing_keys"] if not any(part in key for part in new)},
    }
    refuse_wrong_weights(name, wrong, "give a folder as it was saved, whole")


def decoder_window(config: Any) -> int | None:
    """The tokens that a decoder can write; None if it has no positions of its own."""
    for attribute in ("max_decoder_position_embeddings", "max_position_embeddings"):
        if (found := getattr(config, attribute, None)) is not None:
            return int(found)
    return None


def encoder_window(config: Any) -> int | None:
    """The tokens that an encoder has positions for; None if there is no limit."""
    for attribute in ("encoder_positions", "max_encoder_position_embeddings"):
        if (found := getattr(config, attribute, None)) is not None:
            return int(found)
    return None


def bytes_per_document(model: Any, tokens: int | None) -> int:
    """What writing one document of so many tokens takes besides the weights: mostly keys and values."""
    config, generation = model.config, model.generation_config
    layers = getattr(config, "decoder_layers", None) or config.num_decoder_layers
    beams, longest = generation.num_beams or 1, generation.max_length or decoder_window(config) or 1024
    read = min(tokens or UNKNOWN_LENGTH, encoder_window(config) or tokens or UNKNOWN_LENGTH)
    copies = 1 if getattr(model, "undivided_inputs", ()) else beams
    written = beams * longest * getattr(config, "pages", 1)
    return int((read * copies + written) * 2 * layers * config.d_model * model.dtype.itemsize)
