"""Published weights for our models: BERT, GPT, GPT-2, OPT, BLOOM, LLaMA and T5.

`load_pretrained(folder)` gives the model of a folder with config.json and weights, which the reader
fetches. Or from the two dictionaries, which json.load and safetensors.torch.load_file read:

    model = TransformerLM(pretrained.config_from(config, "gpt2")).eval()
    pretrained.load(model, tensors, "gpt2")
    logits = model(tokens)

Names are those of the library `transformers`, which is not needed. `from_torch` takes a
torch.nn.Transformer.
"""

from unrolled.models.pretrained.config import FAMILIES, config_from
from unrolled.models.pretrained.weights import copy_block, from_torch, load, load_pretrained

__all__ = ["FAMILIES", "config_from", "copy_block", "from_torch", "load", "load_pretrained"]
