// The vocabularies of programs.
#pragma once

#include <seppo/nn/text/vocabulary.h>

namespace examples {

using seppo::Vocabulary;

}  // namespace examples
