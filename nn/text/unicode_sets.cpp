// The names that are no scripts.
#include "unicode_sets.h"

#include <map>
#include <set>

namespace seppo {
inline namespace SEPPO_ABI {

namespace {

const std::map<std::string_view, const char*> kProperties{{"any", R"(\p{Any})"},
                                                          {"assigned", R"(\P{Cn})"},
                                                          {"ascii", R"(\x00-\x7F)"},
                                                          {"alnum", R"(\p{Alphabetic}\p{Nd})"},
                                                          {"alpha", R"(\p{Alphabetic})"},
                                                          {"alphabetic", R"(\p{Alphabetic})"},
                                                          {"blank", R"(\t\p{Zs})"},
                                                          {"cntrl", R"(\p{Cc})"},
                                                          {"digit", R"(\p{Nd})"},
                                                          {"emoji", R"(\p{Emoji})"},
                                                          {"extendedpictographic", R"(\p{Extended_Pictographic})"},
                                                          {"ideographic", R"(\p{Ideographic})"},
                                                          {"lower", R"(\p{Lowercase})"},
                                                          {"lowercase", R"(\p{Lowercase})"},
                                                          {"space", kSpaceSet},
                                                          {"upper", R"(\p{Uppercase})"},
                                                          {"uppercase", R"(\p{Uppercase})"},
                                                          {"whitespace", kSpaceSet},
                                                          {"word", kWordSet},
                                                          {"xdigit", kHexadecimalSet}};

// General categories by both of their names.
const std::map<std::string_view, const char*> kCategories{{"c", "C"},   {"other", "C"},
                                                          {"cc", "Cc"}, {"control", "Cc"},
                                                          {"cf", "Cf"}, {"format", "Cf"},
                                                          {"cn", "Cn"}, {"unassigned", "Cn"},
                                                          {"co", "Co"}, {"privateuse", "Co"},
                                                          {"l", "L"},   {"letter", "L"},
                                                          {"ll", "Ll"}, {"lowercaseletter", "Ll"},
                                                          {"lm", "Lm"}, {"modifierletter", "Lm"},
                                                          {"lo", "Lo"}, {"otherletter", "Lo"},
                                                          {"lt", "Lt"}, {"titlecaseletter", "Lt"},
                                                          {"lu", "Lu"}, {"uppercaseletter", "Lu"},
                                                          {"m", "M"},   {"mark", "M"},
                                                          {"mc", "Mc"}, {"spacingmark", "Mc"},
                                                          {"me", "Me"}, {"enclosingmark", "Me"},
                                                          {"mn", "Mn"}, {"nonspacingmark", "Mn"},
                                                          {"n", "N"},   {"number", "N"},
                                                          {"nd", "Nd"}, {"decimalnumber", "Nd"},
                                                          {"nl", "Nl"}, {"letternumber", "Nl"},
                                                          {"no", "No"}, {"othernumber", "No"},
                                                          {"p", "P"},   {"punctuation", "P"},
                                                          {"pc", "Pc"}, {"connectorpunctuation", "Pc"},
                                                          {"pd", "Pd"}, {"dashpunctuation", "Pd"},
                                                          {"pe", "Pe"}, {"closepunctuation", "Pe"},
                                                          {"pf", "Pf"}, {"finalpunctuation", "Pf"},
                                                          {"pi", "Pi"}, {"initialpunctuation", "Pi"},
                                                          {"po", "Po"}, {"otherpunctuation", "Po"},
                                                          {"ps", "Ps"}, {"openpunctuation", "Ps"},
                                                          {"s", "S"},   {"symbol", "S"},
                                                          {"sc", "Sc"}, {"currencysymbol", "Sc"},
                                                          {"sk", "Sk"}, {"modifiersymbol", "Sk"},
                                                          {"sm", "Sm"}, {"mathsymbol", "Sm"},
                                                          {"so", "So"}, {"othersymbol", "So"},
                                                          {"z", "Z"},   {"separator", "Z"},
                                                          {"zl", "Zl"}, {"lineseparator", "Zl"},
                                                          {"zp", "Zp"}, {"paragraphseparator", "Zp"},
                                                          {"zs", "Zs"}, {"spaceseparator", "Zs"}};

// Sets that another case would enlarge.
const std::set<std::string_view> kCases{
    "ll",    "lt",        "lu",    "lowercaseletter", "titlecaseletter", "uppercaseletter",
    "lower", "lowercase", "upper", "uppercase"};

}  // namespace

std::string property_set(const std::string& name) {
  if (const auto found = kProperties.find(name); found != kProperties.end()) return found->second;
  if (const auto found = kCategories.find(name); found != kCategories.end())
    return std::string("\\p{") + found->second + "}";
  return "\\p{sc:" + name + "}";  // the Script property, not its extensions
}

bool is_posix_set(std::string_view name) { return kProperties.contains(name); }

bool is_of_one_case(std::string_view name) { return kCases.contains(name); }

}  // namespace SEPPO_ABI
}  // namespace seppo
