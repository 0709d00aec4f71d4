// Texts of users: read by the library, with its checks.
#pragma once

#include <seppo/nn/io/text_file.h>

namespace examples {

using seppo::read_text;
using seppo::TextReader;

}  // namespace examples
