// Templates of chats: what they write, by hand and as the package jinja2 writes it, and what is refused.
// needs: libraries: seppo::text
#define BOOST_TEST_MODULE chat_template
#include <seppo/autograd/core/check.h>
#include <seppo/nn/text/byte_level_bpe.h>
#include <seppo/nn/text/chat_template.h>

#include "support/program.h"

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <vector>

using namespace seppo;
using nlohmann::json;

namespace {

const std::vector<ChatMessage> kTalk{
    {"system", " Be brief. "}, {"user", "What's a \"fox\"?"}, {"assistant", "An animal.\n"}, {"user", "Why?"}};

const std::map<std::string, std::string> kTokens{{"bos_token", "<s>"}, {"eos_token", "</s>"}};

std::string rendered(const std::string& source, bool asks = true, const std::vector<ChatMessage>& talk = kTalk) {
  return ChatTemplate(source, "t.jinja", kTokens).render(talk, asks);
}

// In the manner of published templates: marks around messages, namespaces, macros, loops over parts, and corner cases.
const std::vector<std::string> kSources{
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ "
    "'<|im_start|>system\nHelp<|im_end|>\n' }}"
    "{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "{{- bos_token }}\n{%- if messages[0].role == 'system' %}\n    {%- set system = messages[0]['content'] | trim %}\n"
    "    {%- set messages = messages[1:] %}\n{%- else %}\n    {%- set system = \"\" %}\n{%- endif %}\n"
    "{{- '<<SYS>>' + system + '<</SYS>>\\n\\n' }}\n{%- for m in messages %}\n    {%- if (m['role'] == 'user') != "
    "(loop.index0 % 2 == 0) %}\n"
    "        {{- raise_exception('roles must alternate') }}\n    {%- endif %}\n    {%- if m.role == 'user' %}\n"
    "        {{- '[INST] ' ~ m.content ~ ' [/INST]' }}\n    {%- elif m.role == 'assistant' %}\n        {{- ' ' + "
    "m.content|trim + eos_token }}\n"
    "    {%- endif %}\n{%- endfor %}\n",
    "{% set ns = namespace(found=false, last=-1) %}\n{% for m in messages | reverse %}\n  {% set index = "
    "messages|length - 1 - loop.index0 %}\n"
    "  {% if not ns.found and m.role == \"user\" %}\n    {% set ns.found = true %}\n    {% set ns.last = index %}\n  "
    "{% endif %}\n{% endfor %}\n"
    "last={{ ns.last }} {{ ns.found }}",
    "{% macro show(m, mark='#', deep=none) %}\n{{ mark * 2 }} {{ m.role | upper }}: {{ m['content'] | replace('\\n', ' "
    "') }}\n{% endmacro %}\n"
    "{% for m in messages if m.role != 'system' %}\n{{ show(m, mark='=' if loop.last else '#') }}\n{% else "
    "%}\nnothing\n{% endfor %}",
    "{% for m in messages %}{% if loop.index > 2 %}{% break %}{% endif %}{% if m.role == 'system' %}{% continue %}{% "
    "endif %}{{ loop.index }}{{ m.role }},{% endfor %}",
    "{{ messages | map(attribute='role') | join(', ') }}|{{ messages | selectattr('role', 'equalto', 'user') | list | "
    "length }}|"
    "{{ (messages | rejectattr('role', 'equalto', 'user') | first).content }}",
    "{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 1 + 2 * 3 }} {{ (1 + 2) * 3 }} {{ 2.5 + 1 }} {{ 'a' ~ 1 ~ "
    "none ~ true }}",
    "{{ 'abcdef'[1:-1] }} {{ 'abcdef'[::-1] }} {{ [1, 2, 3][-1] }} {{ 'abc'[5:] }}| {{ 'h\\u00e9llo'|length }} {{ "
    "'h\u00e9llo'[1] }}",
    "{{ none is none }} {{ x is defined }} {{ x is not defined }} {{ 3 is odd }} {{ 'a' in 'cat' }} {{ 'x' not in "
    "['a', 'x'] }} {{ not 1 == 2 }}",
    "{{ '  a b  '.strip() }}|{{ 'a,b,c'.split(',') | join('-') }}|{{ 'a b'.title() }}|{{ 'ab'.startswith('a') }}|{{ 'x "
    " y'.split() }}|{{ 'aXbXc'.split('X', 1)[-1] }}|{{ 'a\\n'.rstrip() }}|",
    "{{ {'a': 1, 'b': [true, none, 'x\"y']} | tojson }} {{ messages[0] | tojson }} {{ [1, {'k': 2.0}] | "
    "tojson(indent=2) }}",
    "{{ {'a': 1, 'b': 'c'} }} {{ [1, 'two', none, 3.0, \"it's\"] }} {{ (1, 2)[0] }} {{ {'a': 5}.get('a') }} {{ {'a': "
    "5}.get('z', 9) }}",
    "{% for k, v in {'one': 1, 'two': 2}.items() %}{{ k }}={{ v }};{% endfor %}{% for i in range(2, 8, 3) %}{{ i }} {% "
    "endfor %}",
    "a\n  {% if true %}\n  b\n  {% endif %}\n  {# gone #}\nc {%- if true %} d {% endif -%}  \n e {{ 'x' }}\n",
    "{% set text %}\nhi {{ messages[1].role }}\n{% endset %}[{{ text }}]{% set a, b = 1, 2 %}{{ a + b }}",
    "{{ missing }}|{{ missing | default('d') }}|{{ '' | default('d', true) }}|{{ messages[0].missing }}|{{ 'yes' if "
    "missing else 'no' }}|{{ 'y' if false }}|",
    "{% for m in messages %}{{ loop.previtem.role if loop.previtem is defined else '-' }}>{{ loop.nextitem.role if not "
    "loop.last else '-' }} {% endfor %}",
    "{% set x = 1 %}{% for i in [1, 2] %}{% set x = 5 %}{% endfor %}{{ x }}{% if true %}{% set x = 7 %}{% endif %}{{ x "
    "}}",
    "{% generation %}{{ 'kept' }}{% endgeneration %}{{ '{{ no }}' }}{{ \"%}\" }}",
    "{{ messages[1]['content'] | trim | lower | capitalize }} {{ 'a\nb' | indent(3) }} {{ '12' | int + 1 }} {{ [3] + "
    "[4] }} {{ 'b' > 'a' and 2 >= 2.0 }}"};

void refused(const std::string& source, const std::string& part) {
  BOOST_CHECK_EXCEPTION(rendered(source), FormatError, [&](const FormatError& e) {
    BOOST_TEST_MESSAGE(e.what());
    return std::string(e.what()).starts_with("t.jinja") && std::string(e.what()).find(part) != std::string::npos;
  });
}

}  // namespace

BOOST_AUTO_TEST_CASE(conversations_are_written_as_templates_say) {
  BOOST_CHECK_EQUAL(rendered(kSources[0], true, {{"user", "Hi"}}),
                    "<|im_start|>system\nHelp<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  BOOST_CHECK_EQUAL(
      rendered(kSources[1], false),
      "<s><<SYS>>Be brief.<</SYS>>\n\n[INST] What's a \"fox\"? [/INST] An animal.</s>[INST] Why? [/INST]");
  BOOST_CHECK_EQUAL(rendered(kSources[2]), "last=3 True");
  BOOST_CHECK_EQUAL(rendered(kSources[4]), "2user,");
  BOOST_CHECK_EQUAL(rendered(kSources[6]), "3 -4 2 3.5 7 9 3.5 a1NoneTrue");
  BOOST_CHECK_EQUAL(rendered(kSources[17]), "17");
}

// What jinja2 writes with the settings of Hugging Face's transformers.
BOOST_AUTO_TEST_CASE(jinja2_writes_the_same) {
  const char* const named = std::getenv("SEPPO_TRANSFORMERS");
  const std::string python = named ? named : "/usr/bin/python3";
  if (std::system((python + " -c 'import jinja2' > /dev/null 2>&1").c_str()) != 0) {
    std::cout << "skipped: jinja2; set SEPPO_TRANSFORMERS to a Python that has it\n";
    return;
  }
  const test::Folder folder("chat");
  json messages = json::array();
  for (const ChatMessage& one : kTalk) messages.push_back({{"role", one.role}, {"content", one.content}});
  folder.write("in.json", json{{"sources", kSources}, {"messages", messages}, {"tokens", kTokens}}.dump());
  folder.write("render.py", R"(
import json
import jinja2, jinja2.ext, jinja2.sandbox
class Generation(jinja2.ext.Extension):
    tags = {"generation"}
    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.Scope(body).set_lineno(line)
given = json.load(open("in.json"))
e = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                 extensions=[Generation, jinja2.ext.loopcontrols])
e.filters["tojson"] = lambda x, indent=None: json.dumps(x, ensure_ascii=False, indent=indent)
print(json.dumps([[e.from_string(s).render(messages=given["messages"], add_generation_prompt=asks, tools=None,
                                           documents=None, **given["tokens"]) for asks in (True, False)]
                  for s in given["sources"]]))
)");
  const std::string command = "cd '" + folder.path.string() + "' && " + python + " render.py > out.json 2> err.txt";
  BOOST_REQUIRE_MESSAGE(std::system(command.c_str()) == 0, test::read(folder.path / "err.txt"));
  const json expected = json::parse(test::read(folder.path / "out.json"));
  for (std::size_t i = 0; i < kSources.size(); ++i) {
    BOOST_CHECK_EQUAL(rendered(kSources[i], true), expected[i][0].get<std::string>());
    BOOST_CHECK_EQUAL(rendered(kSources[i], false), expected[i][1].get<std::string>());
  }
}

BOOST_AUTO_TEST_CASE(what_is_not_done_is_shown) {
  refused("a\n{% include 'x' %}", "t.jinja:2: {% include 'x' %}: is not supported");
  refused("{{ messages | xmlattr }}", "{{ messages | xmlattr }}: 'xmlattr': this filter is not supported");
  refused("{{ 1 is prime }}", "'prime': this test is not supported");
  refused("{% if true %}", "the end: where {% endif %} is due");
  refused("{% endfor %}", "{% endfor %}: is not supported");
  refused("{{ 'a }}", "without }}");
  refused("{{ (1 }}", "')' is due");
  refused("{{ 1 < 2 < 3 }}", "a chain of comparisons");
  refused("{{ 1 $ 2 }}", "'$' is not supported");
  refused("{{ messages.append(1) }}", "the method 'append' of a value of type list");
  refused("{{ raise_exception('no system') }}", "the template refuses this: no system");
  refused("{{ f(1) }}", "'f' is no function here");
  refused("{{ 1 + 'a' }}", "'+' of int and str");
  refused("{{ x.y }}", "'y' of a value that is not defined");
  refused("{{ 1 // 0 }}", "division by zero");
  refused("{% for a, b in [1] %}{% endfor %}", "is not 2 values");
}

// A template cannot take the machine.
BOOST_AUTO_TEST_CASE(templates_have_limits) {
  refused("{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}", "steps");
  refused("{{ range(10000000) }}", "range: more than");
  refused("{{ 'a' * 100000000 }}", "a text of more than");
  refused("{% set ns = namespace(t='aaaaaaaa') %}{% for i in range(30) %}{% set ns.t = ns.t ~ ns.t %}{% endfor %}",
          "bytes");
  refused("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "macros within each other");
  refused("{{ " + std::string(1000, '(') + "1" + std::string(1000, ')') + " }}", "nested too deeply");
  refused("{{ " + std::string(1000, '-') + "1 }}", "nested too deeply");
  std::string blocks;
  for (int i = 0; i < 1000; ++i) blocks += "{% if true %}";
  refused(blocks, "blocks within each other");
}

BOOST_AUTO_TEST_CASE(a_folder_has_its_template) {
  const test::Folder folder("chat");
  BOOST_CHECK(!read_chat_template(folder.path));
  folder.write("tokenizer_config.json", R"({"bos_token": {"content": "<b>"}, "chat_template": "{{ bos_token }}old"})");
  BOOST_CHECK_EQUAL(read_chat_template(folder.path)->render(kTalk, true), "<b>old");
  folder.write("tokenizer_config.json",
               R"({"chat_template": [{"name": "tool", "template": "t"}, {"name": "default", "template": "d"}]})");
  BOOST_CHECK_EQUAL(read_chat_template(folder.path)->render(kTalk, true), "d");
  folder.write("chat_template.jinja", "{{ messages[1].content }}");
  BOOST_CHECK_EQUAL(read_chat_template(folder.path)->render(kTalk, true), "What's a \"fox\"?");
  folder.write("chat_template.jinja", "{% extends 'x' %}");
  BOOST_CHECK_THROW(read_chat_template(folder.path), FormatError);
}

BOOST_AUTO_TEST_CASE(special_tokens_are_found_in_chats) {
  const Tokenizer tokenizer = byte_tokenizer();
  const std::string mark = "<|endoftext|>";
  const std::vector<int> expected{'a', 256, 256, 'b', '<', '|'};
  BOOST_TEST(encode_chat(tokenizer, "a" + mark + mark + "b<|") == expected, boost::test_tools::per_element());
  BOOST_CHECK(encode_chat(tokenizer, "").empty());
}
