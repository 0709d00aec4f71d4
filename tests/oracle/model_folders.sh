# shellcheck shell=sh
# Sourced by the comparisons of language models in this folder.

# folders_of FROM WORK: prints FROM if it is a folder of models. Else it is a seed, whose models PYTHON, which has
# transformers, writes into WORK.
folders_of() {
  if [ -d "$1" ]; then
    echo "$1"
    return
  fi
  if ! "${PYTHON:-python3}" "$(dirname "$0")/model_families.py" "$2/folders-$1" "$1" 2>"$2/progress"; then
    cat "$2/progress" >&2
    exit 1
  fi
  echo "$2/folders-$1"
}

# compare_models BUILD NAME FOLDER: by the tests of families, in each precision that is built.
compare_models() {
  compared=0
  for test in "$1"/tests/test_model_families*; do
    [ -x "$test" ] || continue
    echo "$2: $(basename "$test")"
    SEPPO_MODEL_FOLDERS="$3" "$test" --report_level=short
    compared=$((compared + 1))
  done
  if [ $compared -eq 0 ]; then
    echo "$1/tests has no test_model_families" >&2
    exit 1
  fi
}
