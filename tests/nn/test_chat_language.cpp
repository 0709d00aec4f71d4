// Jinja as templates of chats use it, against the package jinja2.
// needs: libraries: seppo::text
#include <seppo/autograd/core/check.h>
#include <seppo/nn/text/chat_template.h>

#include "support/chat_templates.h"
#include "support/program.h"

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <vector>

using namespace seppo;
using json = nlohmann::ordered_json;

namespace {

using Talk = std::vector<ChatMessage>;

const Talk kTalk{
    {"system", " Be brief. "}, {"user", "What's a \"fox\"?"}, {"assistant", "An animal.\n"}, {"user", "Why?"}};

const std::map<std::string, std::string> kTokens{{"bos_token", "<s>"}, {"eos_token", "</s>"}};

// Corner cases of the language, and what jinja2 3.1.6 writes of them.
struct Case {
  std::string source, written;
};
const std::vector<Case> kCases{
    {"{% set ns = namespace(found=false, last=-1) %}\n{% for m in messages | reverse %}\n  {% set index = "
     "messages|length - 1 - loop.index0 %}\n  {% if not ns.found and m.role == \"user\" %}\n    {% set ns.found = true "
     "%}\n    {% set ns.last = index %}\n  {% endif %}\n{% endfor %}\nlast={{ ns.last }} {{ ns.found }}",
     "last=3 True"},
    {"{% macro show(m, mark='#', deep=none) %}\n{{ mark * 2 }} {{ m.role | upper }}: {{ m['content'] | replace('\\n', "
     "' ') }}\n{% endmacro %}\n{% for m in messages if m.role != 'system' %}\n{{ show(m, mark='=' if loop.last else "
     "'#') }}\n{% else %}\nnothing\n{% endfor %}",
     "## USER: What's a \"fox\"?\n\n## ASSISTANT: An animal. \n\n== USER: Why?\n\n"},
    {"{% for m in messages %}{% if loop.index > 2 %}{% break %}{% endif %}{% if m.role == 'system' %}{% continue %}{% "
     "endif %}{{ loop.index }}{{ m.role }},{% endfor %}",
     "2user,"},
    {"{{ messages | map(attribute='role') | join(', ') }}|{{ messages | selectattr('role', 'equalto', 'user') | list | "
     "length }}|{{ (messages | rejectattr('role', 'equalto', 'user') | first).content }}",
     "system, user, assistant, user|2| Be brief. "},
    {"{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 1 + 2 * 3 }} {{ (1 + 2) * 3 }} {{ 2.5 + 1 }} {{ 'a' ~ 1 ~ "
     "none ~ true }}",
     "3 -4 2 3.5 7 9 3.5 a1NoneTrue"},
    {"{{ 'abcdef'[1:-1] }} {{ 'abcdef'[::-1] }} {{ [1, 2, 3][-1] }} {{ 'abc'[5:] }}| {{ 'h\\u00e9llo'|length }} {{ "
     "'h\u00e9llo'[1] }}",
     "bcde fedcba 3 | 5 \u00e9"},
    {"{{ none is none }} {{ x is defined }} {{ x is not defined }} {{ 'a' in 'cat' }} {{ 'x' not in "
     "['a', 'x'] }} {{ not 1 == 2 }}",
     "True False True True False True"},
    {"{{ '  a b  '.strip() }}|{{ 'a,b,c'.split(',') | join('-') }}|{{ 'a-b c(d' | title }}|{{ 'ab'.startswith('a') "
     "}}|{{ 'x  y'.split() }}|{{ 'aXbXc'.split('X', 1)[-1] }}|{{ 'a\\n'.rstrip() }}|",
     "a b|a-b-c|A-B C(D|True|['x', 'y']|bXc|a|"},
    {"{{ {'a': 1, 'b': [true, none, 'x\"y']} | tojson }} {{ messages[0] | tojson }} {{ [1, {'k': 2.0}] | "
     "tojson(indent=2) }}",
     "{\"a\": 1, \"b\": [true, null, \"x\\\"y\"]} {\"role\": \"system\", \"content\": \" Be brief. \"} [\n  1,\n  {\n  "
     "  \"k\": 2.0\n  }\n]"},
    {"{{ {'a': 1, 'b': 'c'} }} {{ [1, 'two', none, 3.0, \"it's\"] }} {{ (1, 2)[0] }} {{ {'a': 5}.get('a') }} {{ {'a': "
     "5}.get('z', 9) }}",
     "{'a': 1, 'b': 'c'} [1, 'two', None, 3.0, \"it's\"] 1 5 9"},
    {"{% for k, v in {'one': 1, 'two': 2}.items() %}{{ k }}={{ v }};{% endfor %}{% for i in range(2, 8, 3) %}{{ i }} "
     "{% endfor %}",
     "one=1;two=2;2 5 "},
    {"a\n  {% if true %}\n  b\n  {% endif %}\n  {# gone #}\nc {%- if true %} d {% endif -%}  \n e {{ 'x' }}\n",
     "a\n  b\nc d e x"},
    {"{% set text %}\nhi {{ messages[1].role }}\n{% endset %}[{{ text }}]{% set a, b = (1, 2) %}{{ a + b }}",
     "[hi user\n]3"},
    {"{{ 'abcdef'[2::9223372036854775806] }} {{ 'abcdef'[4::'-9223372036854775808' | int] }} {{ 'nan' | int }} {{ "
     "'inf' | "
     "int(7) }} {{ '4.9' | int }} {{ -4.9 | int }}",
     "c e 0 7 4 -4"},
    {"{{ missing }}|{{ missing | default('d') }}|{{ '' | default('d', true) }}|{{ messages[0].missing }}|{{ 'yes' if "
     "missing else 'no' }}|{{ 'y' if false }}|",
     "|d|d||no||"},
    {"{% for m in messages %}{{ loop.previtem.role if loop.previtem is defined else '-' }}>{{ loop.nextitem.role if "
     "not loop.last else '-' }} {% endfor %}",
     "->user system>assistant user>user assistant>- "},
    {"{% set x = 1 %}{% for i in [1, 2] %}{% set x = 5 %}{% endfor %}{{ x }}{% if true %}{% set x = 7 %}{% endif %}{{ "
     "x }}",
     "17"},
    {"{% generation %}{{ 'kept' }}{% endgeneration %}{{ '{{ no }}' }}{{ \"%}\" }}", "kept{{ no }}%}"},
    {"{{ '  two Words' | trim | lower | capitalize }} {{ '12' | int + 1 }} {{ [3] + [4] }} {{ 'b' > 'a' and 2 "
     ">= 2.0 }}",
     "Two words 13 [3, 4] True"},
    {"{{ 100000.0 }} {{ 0.0001 }} {{ 0.00001 }} {{ 2.50 }}", "100000.0 0.0001 1e-05 2.5"},
    {"{% for x in [1, 2] %}{% break %}{% else %}never done{% endfor %}|{% for x in [] %}{% else %}empty{% endfor %}",
     "never done|empty"},
    {"{% for a in [1, 2] %}{% for b in [] %}{% else %}{% continue %}{% endfor %}X{% endfor %}|"
     "{% for a in [1, 2] %}{{ a }}{% for b in [] %}{% else %}{% break %}{% endfor %}X{% endfor %}",
     "|1"},
    {"{{ (x | default(y)) is defined }} {{ {'a': 1}.get('x', y) is defined }} {{ [1, 2] | join(x) }} "
     "{{ messages[:none] | length }} {{ '' | default('x', y) }}|{{ [1] | tojson(x) }}",
     "False False 12 4 |[1]"},
    {"{{ '+5' | int }} {{ '1_000' | int }} {{ '+4.9' | int }} {{ '1__0' | int(3) }} {{ '_1' | int(3) }} "
     "{{ '+-5' | int(3) }} {{ {'items': 2}['items'] }} {{ [{'items': 2}] | map(attribute='items') | first }}",
     "5 1000 4 3 3 3 2 2"},
    {"{% set u = messages | selectattr('role', 'equalto', 'user') %}{% for m in u %}a{% endfor %}{% for m in u %}b"
     "{% endfor %}{{ u | list }}{{ 'y' if u }}{% set u = [1, 2] | select %}{% set a, b = u %}{{ a }}{{ b }}"
     "{{ u | list }}{% set u = {'a': 1}.items() %}{{ u | list }}{{ u | list }}",
     "aa[]y12[][('a', 1)][('a', 1)]"},
    {"\u00a0{% if true %}a{% endif %}\n\u3000\x1c {% if true %}b{% endif %}\u00a0{% if true %}c{% endif %}",
     "ab\u00a0c"},
    {"{{ ['\\u00a0\\u00ad\\u00e9', '\\u0085\\x7f', '\\u3000\\u200b\\ue000', '\U000e0001\\\\\\''] }}",
     "['\\xa0\\xad\u00e9', '\\x85\\x7f', '\\u3000\\u200b\\ue000', \"\\U000e0001\\\\'\"]"},
    {"{% macro f(a, b=2) %}[{{ a }},{{ b }}]{% endmacro %}{{ f(1) }}{{ f(b=3, a=missing) }}{{ f(1, missing) }}",
     "[1,2][,3][1,]"},
    {"a {# c #}{%- if true %}b{% endif %}\r\n  {%+ if true +%}\n c{% endif %}", "a b  \n c"},
    {"{{ {'a': {'b': {}}} }}{{ (1,) }}{{ {'B': 1, 'a': 2} | dictsort }}{{ [1, 2][5] }}{{ none['x'] }}{{ none.x }}",
     "{'a': {'b': {}}}(1,)[('a', 2), ('B', 1)]"},
    {"{{ (messages | selectattr('role', 'equalto', 'nobody')) is iterable }}{{ 'yes' if messages | selectattr('role', "
     "'equalto', 'nobody') }}{{ messages | map(attribute='role') | list }}",
     "Trueyes['system', 'user', 'assistant', 'user']"},
    {"{{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 2.5 // 1 }} {{ 9007199254740991 % 10 }} {{ true + 1 }}",
     "-4 2 -2 2.0 1 2"},
    {"{% set x = 1 %}{% generation %}{% set x = 2 %}{{ x }}{% endgeneration %}{{ x }}{% set y %}{% set x = 3 %}{{ x "
     "}}{% endset %}{{ x }}{{ y }}",
     "2113"},
    {"{{ '\\u3000a\\u00a0'.strip() }}|{{ 'a\\u2003b\\x1cc'.split() }}|{{ 'xxayx'.strip('xy') }}|{{ 'a\\x07b' | tojson "
     "}}{{ '\\u00e9' | tojson(ensure_ascii=true) }}",
     "a|['a', 'b', 'c']|a|\"a\\u0007b\"\"\\u00e9\""},
    {"{{ ('a' | tojson | safe) ~ '<b>' }}{{ messages[-1].content | safe }}{{ '\\u00c9T\\u00c9' | lower }}",
     "\"a\"<b>Why?\u00e9t\u00e9"}};

std::string rendered(const std::string& source, bool asks = true, const Talk& talk = kTalk) {
  return ChatTemplate(source, "t.jinja", kTokens).render(talk, asks);
}

json json_of(const Talk& talk) {
  json all = json::array();
  for (const ChatMessage& one : talk) all.push_back({{"role", one.role}, {"content", one.content}});
  return all;
}

// Messages of all roles, of pieces that templates look for, cut or escape.
class Talks {
 public:
  Talk next() {
    Talk talk;
    if (below(2) == 0) talk.push_back({"system", content()});
    const std::size_t turns = below(6);
    for (std::size_t i = 0; i < turns; ++i) {
      const bool is_other = below(12) == 0;
      const char* const turn = i % 2 == 0 ? "user" : "assistant";
      talk.push_back({is_other ? pick({"user", "assistant", "system", "tool"}) : turn, content()});
    }
    return talk;
  }

 private:
  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }
  std::string pick(const std::vector<std::string>& of) { return of[below(of.size())]; }
  std::string content() {
    std::string text;
    for (std::size_t count = below(5); count > 0; --count)
      text += pick({"Hello", "  two  ", "\n\nlines\n", "<think>\nhm\n</think>\n\nso", "</think>", "it's \"so\"",
                    "{{ x }}", "{% if %}", "h\u00e9 \u3000", "\u00a0", "\u65e5\u672c", "a\\nb", "<|im_end|>", "tab\t\r",
                    "\x1c\u0085", "None", "<tool>a</tool>"});
    return text;
  }

  std::mt19937_64 random_{46};
};

constexpr const char* kScript = R"(
import json
import jinja2, jinja2.ext, jinja2.sandbox
class Generation(jinja2.ext.Extension):
    tags = {"generation"}
    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.Scope(body).set_lineno(line)
def refuse(message):
    raise jinja2.exceptions.TemplateError(message)
given = json.load(open("in.json"))
e = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                 extensions=[Generation, jinja2.ext.loopcontrols])
e.filters["tojson"] = lambda x, ensure_ascii=False, indent=None: json.dumps(x, ensure_ascii=ensure_ascii, indent=indent)
e.globals["raise_exception"] = refuse
e.globals["strftime_now"] = lambda f: ""
def written(source, talk, asks):
    try:
        return source.render(messages=talk, add_generation_prompt=asks, tools=None, documents=None, **given["tokens"])
    except (jinja2.exceptions.TemplateError, TypeError):
        return None
print(json.dumps([[[written(source, talk, asks) for asks in (False, True)] for talk in given["talks"]]
                  for source in map(e.from_string, given["sources"])]))
)";

// Before its version 3.1.5, jinja2's filter `int` fails at "inf".
const std::string kRecent = "import jinja2; assert tuple(map(int, jinja2.__version__.split('.')[:3])) >= (3, 1, 5)";

// By source, talk and whether it asks; null where jinja2 refuses. None at all without the package.
json written_by_jinja2(const std::vector<std::string>& sources, const std::vector<Talk>& talks) {
  const char* const named = std::getenv("SEPPO_TRANSFORMERS");
  const std::string python = named ? named : "/usr/bin/python3";
  if (std::system((python + " -c \"" + kRecent + "\" > /dev/null 2>&1").c_str()) != 0) return nullptr;
  const test::Folder folder("chat");
  json given{{"sources", sources}, {"talks", json::array()}, {"tokens", kTokens}};
  for (const Talk& talk : talks) given["talks"].push_back(json_of(talk));
  folder.write("in.json", given.dump());
  folder.write("render.py", kScript);
  const std::string command = "cd '" + folder.path.string() + "' && " + python + " render.py > out.json 2> err.txt";
  BOOST_REQUIRE_MESSAGE(std::system(command.c_str()) == 0, test::read(folder.path / "err.txt"));
  return json::parse(test::read(folder.path / "out.json"));
}

json ours(const std::string& source, const Talk& talk, bool asks) {
  try {
    return rendered(source, asks, talk);
  } catch (const FormatError& e) {
    BOOST_TEST_INFO(e.what());
    return nullptr;
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_language_is_jinja2s) {
  for (const auto& [source, written] : kCases) {
    BOOST_TEST_CONTEXT(source) { BOOST_CHECK_EQUAL(rendered(source), written); }
  }
}

BOOST_AUTO_TEST_CASE(jinja2_writes_the_same) {
  std::vector<std::string> sources;
  for (const auto& [name, source] : test::kChatTemplates) sources.push_back(source);
  for (const Case& one : kCases) sources.push_back(one.source);
  std::vector<Talk> talks{kTalk};
  for (Talks random; talks.size() < 200;) talks.push_back(random.next());
  const json expected = written_by_jinja2(sources, talks);
  if (expected.is_null()) {
    std::cout << "skipped: jinja2 3.1.5 or later; set SEPPO_TRANSFORMERS to a Python that has it\n";
    return;
  }
  std::size_t refused = 0;
  for (std::size_t s = 0; s < sources.size(); ++s)
    for (std::size_t t = 0; t < talks.size(); ++t)
      for (const bool asks : {false, true}) {
        const json& written = expected[s][t][asks ? 1 : 0];
        if (written.is_null()) ++refused;
        BOOST_TEST_CONTEXT(sources[s] << "\n" << json_of(talks[t])) {
          BOOST_REQUIRE_EQUAL(ours(sources[s], talks[t], asks), written);
        }
      }
  BOOST_CHECK(refused > 0);
}
