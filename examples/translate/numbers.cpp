// Numbers and dates in words, English and German.
#include "translate/numbers.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/random.h>

#include <fmt/format.h>

#include <array>
#include <chrono>

namespace translate {
namespace {

constexpr std::array kEnglishSmall{"zero",     "one",     "two",     "three",     "four",     "five",    "six",
                                   "seven",    "eight",   "nine",    "ten",       "eleven",   "twelve",  "thirteen",
                                   "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
constexpr std::array kEnglishTens{"", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"};
constexpr std::array kEnglishOrdinals{"",           "first",      "second",     "third",     "fourth",    "fifth",
                                      "sixth",      "seventh",    "eighth",     "ninth",     "tenth",     "eleventh",
                                      "twelfth",    "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth",
                                      "eighteenth", "nineteenth", "twentieth"};
constexpr std::array kEnglishMonths{"January", "February", "March",     "April",   "May",      "June",
                                    "July",    "August",   "September", "October", "November", "December"};
constexpr std::array kGermanSmall{"null",     "eins",     "zwei",     "drei",     "vier",     "fünf",    "sechs",
                                  "sieben",   "acht",     "neun",     "zehn",     "elf",      "zwölf",   "dreizehn",
                                  "vierzehn", "fünfzehn", "sechzehn", "siebzehn", "achtzehn", "neunzehn"};
constexpr std::array kGermanTens{"",        "",        "zwanzig", "dreißig", "vierzig",
                                 "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig"};
constexpr std::array kGermanMonths{"Januar", "Februar", "März",      "April",   "Mai",      "Juni",
                                   "Juli",   "August",  "September", "Oktober", "November", "Dezember"};

template <std::size_t N>
const char* at(const std::array<const char*, N>& words, int i) {
  return words[static_cast<std::size_t>(i)];
}

std::string english_below_100(int n) {
  if (n < 20) return at(kEnglishSmall, n);
  return std::string(at(kEnglishTens, n / 10)) + (n % 10 ? std::string("-") + at(kEnglishSmall, n % 10) : "");
}

// `one` is the word for 1: "ein" before other words, "eins" at the end.
std::string german_below_100(int n, const std::string& one) {
  if (n == 1) return one;
  if (n < 20) return at(kGermanSmall, n);
  return (n % 10 ? german_below_100(n % 10, "ein") + "und" : "") + at(kGermanTens, n / 10);
}

std::string german_below_1000(int n, const std::string& one) {
  if (n < 100) return german_below_100(n, one);
  return german_below_100(n / 100, "ein") + "hundert" + (n % 100 ? german_below_100(n % 100, one) : "");
}

std::string english_year(int year) {
  if (year / 100 == 20 && year % 100 < 10) return english(year);  // two thousand and five
  const std::string century = english_below_100(year / 100);
  const int in_century = year % 100;
  if (in_century == 0) return century + " hundred";
  if (in_century < 10) return century + " oh " + at(kEnglishSmall, in_century);
  return century + " " + english_below_100(in_century);
}

std::string german_year(int year) {  // neunzehnhundertfünf, zweitausendfünf
  if (year / 100 == 20) return german(year);
  return std::string(at(kGermanSmall, year / 100)) + "hundert" +
         (year % 100 ? german_below_100(year % 100, "eins") : "");
}

std::string english_ordinal(int day) {
  if (day <= 20) return at(kEnglishOrdinals, day);
  return day == 30 ? "thirtieth" : std::string(at(kEnglishTens, day / 10)) + "-" + at(kEnglishOrdinals, day % 10);
}

std::string german_ordinal(int day) {
  switch (day) {
    case 1:
      return "erste";
    case 3:
      return "dritte";
    case 7:
      return "siebte";
    case 8:
      return "achte";
    default:
      return german_below_100(day, "eins") + (day < 20 ? "te" : "ste");
  }
}

Date date_of(int index) {  // 0 is the first of January 1900
  const std::chrono::sys_days first = std::chrono::year{1900} / 1 / 1;
  const std::chrono::year_month_day day(first + std::chrono::days(index));
  return {static_cast<int>(day.year()), static_cast<int>(static_cast<unsigned>(day.month())),
          static_cast<int>(static_cast<unsigned>(day.day()))};
}

}  // namespace

std::string english(int n) {
  seppo::check<seppo::ArgumentError>(n >= 0 && n < kNumbers, "english: ", n, " is not in 0..", kNumbers - 1);
  if (n < 100) return english_below_100(n);
  std::string text;
  if (n >= 1000) text = english_below_100(n / 1000) + " thousand";
  if (n / 100 % 10) text += (text.empty() ? "" : " ") + english_below_100(n / 100 % 10) + " hundred";
  return text + (n % 100 ? " and " + english_below_100(n % 100) : "");
}

std::string german(int n) {
  seppo::check<seppo::ArgumentError>(n >= 0 && n < kNumbers, "german: ", n, " is not in 0..", kNumbers - 1);
  if (n < 1000) return german_below_1000(n, "eins");
  return german_below_100(n / 1000, "ein") + "tausend" + (n % 1000 ? german_below_1000(n % 1000, "eins") : "");
}

std::string english(const Date& d) {
  return fmt::format("the {} of {} {}", english_ordinal(d.day), at(kEnglishMonths, d.month - 1), english_year(d.year));
}

std::string german(const Date& d) {
  return fmt::format("der {} {} {}", german_ordinal(d.day), at(kGermanMonths, d.month - 1), german_year(d.year));
}

Pair number_task(int index) {
  seppo::check<seppo::IndexError>(index >= 0 && index < kTasks, "number_task: ", index, " is not in 0..", kTasks - 1);
  const auto direction = [&](const auto& value, const std::string& digits) -> Pair {
    switch (index % kDirections) {
      case 0:
        return {english(value), digits};
      case 1:
        return {german(value), digits};
      case 2:
        return {"en " + digits, english(value)};
      default:
        return {"de " + digits, german(value)};
    }
  };
  const int thing = index / kDirections;
  if (thing < kNumbers) return direction(thing, fmt::format("{}", thing));
  const Date date = date_of(thing - kNumbers);
  return direction(date, fmt::format("{:04}-{:02}-{:02}", date.year, date.month, date.day));
}

std::vector<Pair> draw_number_tasks(int count, std::uint64_t seed) {
  constexpr int kNumberTasks = kNumbers * kDirections;
  seppo::check<seppo::ArgumentError>(count >= 0 && count <= 2 * kNumberTasks, "draw_number_tasks: ", count,
                                     " is not in 0..", 2 * kNumberTasks);
  const std::vector<int> numbers = seppo::random_permutation(kNumberTasks, {seed, seppo::Purpose::data, 0});
  const std::vector<int> dates = seppo::random_permutation(kTasks - kNumberTasks, {seed, seppo::Purpose::data, 1});
  std::vector<Pair> tasks;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
    tasks.push_back(number_task(i % 2 ? kNumberTasks + dates[i / 2] : numbers[i / 2]));
  return tasks;
}

}  // namespace translate
