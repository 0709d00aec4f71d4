// `addsub trace`: the whole computation of an answer, step by step.
#pragma once

#include "app/command_line.h"

namespace addsub {

int trace(const examples::Arguments& arguments);

}  // namespace addsub
