"""Makes an encoder of random weights in the shape of larger ones, for bench/encoders.mjs:
    python encoderShape.py MODEL OUT --layers 12 --hidden 768 [--vocabulary 30522] [--type float32]

MODEL: a folder of sentence-transformers with a BERT, whose tokenizer and modules it has. 110M parameters: 12 layers of
768; 300M: 24 of 1024 (the usual 335M with the embeddings); 1.5B: 30 of 2048.
"""

import argparse
import json
import shutil
from pathlib import Path

import torch
import transformers as tf

parser = argparse.ArgumentParser()
parser.add_argument("model", type=Path)
parser.add_argument("out", type=Path)
parser.add_argument("--layers", type=int, required=True)
parser.add_argument("--hidden", type=int, required=True)
parser.add_argument("--vocabulary", type=int)
parser.add_argument("--type", default="float32")
given = parser.parse_args()

config = tf.BertConfig.from_pretrained(given.model)
config.num_hidden_layers, config.hidden_size = given.layers, given.hidden
config.num_attention_heads, config.intermediate_size = given.hidden // 64, 4 * given.hidden
config.vocab_size = given.vocabulary or config.vocab_size
torch.manual_seed(1)
model = tf.BertModel(config, add_pooling_layer=False).to(getattr(torch, given.type))
shutil.copytree(given.model, given.out, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.safetensors"))
model.save_pretrained(given.out)
pooling = given.out / "1_Pooling" / "config.json"
pooling.write_text(json.dumps({**json.loads(pooling.read_text()), "word_embedding_dimension": given.hidden}))
print(sum(each.numel() for each in model.parameters()))
