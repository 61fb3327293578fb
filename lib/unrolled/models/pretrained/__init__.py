"""Published weights for our models: BERT, GPT, GPT-2, OPT, BLOOM, LLaMA and T5.

With a checkpoint's config.json and its weights, which the reader fetches, three lines give the
model. The dictionaries come from json.load, and from safetensors.torch.load_file or
torch.load(…, weights_only=True):

    model = TransformerLM(pretrained.config_from(config, "gpt2")).eval()
    pretrained.load(model, tensors, "gpt2")
    logits = model(tokens)

Names are those of the library `transformers`, which is not needed. `from_torch` takes a
torch.nn.Transformer.
"""

from unrolled.models.pretrained.config import FAMILIES, config_from
from unrolled.models.pretrained.from_torch import from_torch
from unrolled.models.pretrained.load import load

__all__ = ["FAMILIES", "config_from", "from_torch", "load"]
