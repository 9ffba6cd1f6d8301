"""Trains unigram tokenizers with SentencePiece's own maps of characters, writes them in the shapes that encoders of XLM-RoBERTa's kind have,
and what tokenizers makes of drawn strings: lines of JSON, first the tokenizer's files, then a string and its ids.

Arguments: seed, strings. Needs tokenizers and sentencepiece (with protobuf).
"""

import io
import json
import random
import sys
import unicodedata

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

WORDS = "the of query passage what is Straße naïve café Привет мир γειά σου 你好世界 こんにちは 안녕하세요 नमस्ते สวัสดี مرحبا שלום ﬁne ① Ⅷ ½ x² Å Å ㌔ ﷺ".split()
RANGES = [(1, 0x250), (0x300, 0x370), (0x370, 0x600), (0x600, 0x700), (0x900, 0xE80), (0x1100, 0x1200), (0x1E00, 0x2100), (0x2100, 0x2C00), (0x3000, 0x3400), (0x4E00, 0x4F00), (0xAC00, 0xAD00), (0xF900, 0xFFFF), (0x1D100, 0x1D800), (0x1F300, 0x1F700), (0xE0020, 0xE0080)]
MARKS = [0x300, 0x301, 0x308, 0x323, 0x327, 0x345, 0x5B0, 0x64B, 0x93C, 0x94D, 0xE33, 0xEB3, 0x200C, 0x200D, 0xFE0F, 0x1F3FB, 0x1D165, 0x903, 0x1038, 0x600, 0xAD, 0x3099]


def character(rng):
    while True:
        c = rng.choice(MARKS) if rng.random() < 0.25 else rng.randrange(*rng.choice(RANGES))
        if unicodedata.category(chr(c)) not in ("Cs", "Cn"):
            return chr(c)


def drawn(rng):
    kind = rng.random()
    if kind < 0.6:
        return "".join(character(rng) for _ in range(rng.randint(1, 40)))
    made = []
    for _ in range(rng.randint(1, 30)):
        word = rng.choice(WORDS)
        made.append(unicodedata.normalize(rng.choice(["NFD", "NFC"]), word) if rng.random() < 0.5 else word + (character(rng) if rng.random() < 0.3 else ""))
        made.append(rng.choice([" ", "  ", "\t", "\u00a0", "\u3000", ", ", "\r\n", "\u200b", "▁"]))
    return "".join(made)


def tokenizer_of(rule, shape, fallback, rng):
    model = io.BytesIO()
    lines = [line for line in (drawn(rng).replace("\n", " ").replace("\x00", "").strip() for _ in range(4000)) if line]
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, model_type="unigram", vocab_size=6000, hard_vocab_limit=False, normalization_rule_name=rule, byte_fallback=fallback, character_coverage=0.98, bos_id=0, pad_id=1, eos_id=2, unk_id=3, minloglevel=2, num_threads=1)
    proto = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    tokenizer = Tokenizer(models.Unigram([(piece.piece, piece.score) for piece in proto.pieces], unk_id=3, byte_fallback=fallback))
    map_ = normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)
    if shape == "words":
        tokenizer.normalizer = map_
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    else:
        tokenizer.normalizer = normalizers.Sequence([map_, normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), "▁")])
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in ("<s>", "<pad>", "</s>", "<unk>")] + [AddedToken("<mask>", special=True, normalized=False, lstrip=True)])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return tokenizer


seed, count = int(sys.argv[1]), int(sys.argv[2])
rng = random.Random(seed)
SHAPES = [("nmt_nfkc", "words", False), ("nmt_nfkc", "whole", False), ("nmt_nfkc_cf", "whole", True), ("nfkc", "words", True)]
for rule, shape, fallback in SHAPES:
    tokenizer = tokenizer_of(rule, shape, fallback, rng)
    print(json.dumps({"name": f"{rule}, {shape}", "tokenizer": json.loads(tokenizer.to_str())}))
    for _ in range(count // len(SHAPES)):
        text = drawn(rng)
        print(json.dumps([text, tokenizer.encode(text).ids]))
