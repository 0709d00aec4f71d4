"""Gives a folder's model a tokenizer, as GGUF files must have one: byte-level BPE whose tokens are numbered letters.

usage: letters_tokenizer.py FOLDER     which has config.json
"""
import json
import pathlib
import sys

folder = pathlib.Path(sys.argv[1])
config = json.loads((folder / "config.json").read_text())
letters = [chr(code) for code in range(0x21, 0x7F)]
tokens = letters[: config["vocab_size"]]
tokens += [f"{tokens[0]}{number}" for number in range(config["vocab_size"] - len(tokens))]
byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
tokenizer = {
    "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
    "pre_tokenizer": byte_level, "post_processor": byte_level, "decoder": byte_level,
    "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
              "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
              "vocab": {token: number for number, token in enumerate(tokens)}, "merges": []},
}
(folder / "tokenizer.json").write_text(json.dumps(tokenizer) + "\n")
