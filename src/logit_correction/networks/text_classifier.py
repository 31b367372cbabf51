"""Any text encoder of the package transformers, such as BERT or DistilBERT, and a linear head."""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor, nn

from logit_correction.errors import InputError, check_range, reason_of
from logit_correction.networks.base import Network, check_tokens, weights_follow
from logit_correction.registry import needed
from logit_correction.types import DataInfo


class TextClassifier(Network):
    """A Hugging Face text encoder by its name or folder, dropout, and a linear head.

    Takes token tensors ``{"input_ids": (B, T), "attention_mask": (B, T)}``; padding does not count. Needs the extra
    ``text``. Weights are read from safetensors files only.
    """

    def __init__(
        self,
        info: DataInfo,
        model: str = "bert-base-uncased",
        weights: Literal["pretrained", "none"] = "pretrained",
        pooling: Literal["cls", "mean"] = "cls",
        dropout: float = 0.1,
    ) -> None:
        """Build the layers.

        Args:
            info: Number of labels.
            model: Name at the Hugging Face hub, or a folder that ``save_pretrained`` has written.
            weights: ``none`` takes the model's sizes alone and draws the weights anew.
            pooling: Features are those of the first token, ``cls``, behind the encoder's own pooling layer if it has
                one, or the ``mean`` over all tokens.
            dropout: Probability with which a feature is left out in training, in [0, 1).

        Raises:
            InputError: If transformers is not installed, the model cannot be had, or the inputs are no tokens.
        """
        super().__init__()
        check_tokens(info, "TextClassifier")
        check_range("dropout", dropout, 0, 1, open_end=True)
        encoder = _encoder(model, weights, pooled=pooling == "cls")
        longest = getattr(encoder.config, "max_position_embeddings", None)
        if longest and info.input_shape[0] > longest:
            raise InputError(f"texts have {info.input_shape[0]} tokens, but {model} takes {longest}: cut them shorter")
        self.metadata = {"model": model, "weights": weights}
        self.features = TextFeatures(encoder, pooling, dropout)
        self.head = nn.Linear(encoder.config.hidden_size, info.num_labels)


class TextFeatures(nn.Module):
    """One vector a text.

    Args:
        encoder: Returns ``last_hidden_state`` (B, T, F) and maybe ``pooler_output`` (B, F).
        pooling: cls or mean.
        dropout: Probability with which a feature is left out in training.
    """

    def __init__(self, encoder: nn.Module, pooling: str, dropout: float) -> None:
        super().__init__()
        self.encoder, self.pooling, self.dropout = encoder, pooling, nn.Dropout(dropout)

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        """Return features (B, F) of token tensors (B, T)."""
        if not isinstance(inputs, dict):
            raise InputError(f"network TextClassifier takes tokens, but the inputs are of shape {tuple(inputs.shape)}")
        output = self.encoder(**inputs)
        pooled = getattr(output, "pooler_output", None)
        if self.pooling == "mean":
            weight = inputs["attention_mask"].to(output.last_hidden_state.dtype).unsqueeze(2)
            pooled = (output.last_hidden_state * weight).sum(1) / weight.sum(1).clamp_min(1)
        elif pooled is None:
            pooled = output.last_hidden_state[:, 0]
        features: Tensor = self.dropout(pooled)
        return features


def _encoder(model: str, weights: str, pooled: bool) -> Any:
    """Return the encoder, without a pooling layer that would not be used."""
    transformers = needed("transformers", "network TextClassifier", "text")
    draw = weights == "none" or weights_follow()

    def build(**options: Any) -> Any:
        if draw:
            return transformers.AutoModel.from_config(transformers.AutoConfig.from_pretrained(model), **options)
        return transformers.AutoModel.from_pretrained(model, use_safetensors=True, **options)

    try:
        try:
            encoder = build(add_pooling_layer=pooled)
        except TypeError:  # DistilBERT and others have none
            encoder = build()
    except Exception as error:  # transformers and the hub raise many kinds
        wanted = "config.json" if draw else "config.json and model.safetensors"
        raise InputError(
            f"text model {model!r} is not in the Hugging Face cache and cannot be downloaded, or is damaged "
            f"({reason_of(error)}): give a folder that holds {wanted} as model"
        ) from error
    return encoder.float().train()  # it may come in half precision, and ready to predict
