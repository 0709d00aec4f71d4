// A translation task that needs no data and whose answers can be checked: numbers and dates, from English and German
// words to digits and back.
//
//   "three hundred and five"                            -> "305"
//   "der dritte Mai neunzehnhundertsiebenundachtzig"    -> "1987-05-03"
//   "en 305"                                            -> "three hundred and five"
//   "de 1987-05-03"                                     -> "der dritte Mai neunzehnhundertsiebenundachtzig"
//
// Numbers are 0..9999, dates those of 1900..2099. When digits are to be written out, "en" or "de" names the language.
#pragma once

#include "translate/data.h"

#include <cstdint>
#include <string>
#include <vector>

namespace translate {

struct Date {
  int year, month, day;
};

std::string english(int number);        // "three hundred and five"
std::string german(int number);         // "dreihundertfünf"
std::string english(const Date& date);  // "the third of May nineteen eighty-seven"
std::string german(const Date& date);   // "der dritte Mai neunzehnhundertsiebenundachtzig"

constexpr int kNumbers = 10'000, kDates = 73'049, kDirections = 4;
constexpr int kTasks = (kNumbers + kDates) * kDirections;
// The task with this index, 0 .. kTasks-1; the tasks with numbers come first.
Pair number_task(int index);

// Different tasks drawn by seed, half of them with numbers and half with dates; at most 80,000.
std::vector<Pair> draw_number_tasks(int count, std::uint64_t seed);

}  // namespace translate
