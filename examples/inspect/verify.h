// `seppo verify FILE...`: are files as they were written, and if not, which tensor is damaged?
#pragma once

#include "app/command_line.h"

namespace inspect {

// Returns 1 if a file is damaged or no safetensors file; the others are checked all the same.
int verify(const examples::Arguments& arguments);

}  // namespace inspect
