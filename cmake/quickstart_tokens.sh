#!/bin/sh
# The quick start's token file: the text of this source tree, one document for each file of text, in an order
# that no file system and no git has a say in. Written again when a file or the tokenizer changed.
set -eu
build=$1
tokens=$build/quickstart.tokens
folders="app lib kernels inputs jobscripts tests docs README.md"

files=$(find $folders -type f -exec grep -Il '' {} + | LC_ALL=C sort)  # without pictures and archives
if [ -f "$tokens" ] && [ -z "$(find $folders "$build/trireme" -newer "$tokens" ! -name '*.pyc' ! -name __pycache__ -print -quit)" ]; then
  exit 0
fi
# No name in the tree has a space in it.
exec "$build/trireme" tokenize --from text --overwrite --output "$tokens" $files
