// Conversations as templates write them, the answers in them, and templates that are refused.
// needs: libraries: seppo::text
#include <seppo/autograd/core/check.h>
#include <seppo/nn/text/byte_level_bpe.h>
#include <seppo/nn/text/chat_template.h>

#include "support/chat_templates.h"
#include "support/program.h"

#include <boost/test/unit_test.hpp>

#include <map>
#include <string>
#include <vector>

using namespace seppo;

namespace {

using Talk = std::vector<ChatMessage>;

const Talk kTalk{
    {"system", " Be brief. "}, {"user", "What's a \"fox\"?"}, {"assistant", "An animal.\n"}, {"user", "Why?"}};
const Talk kAnswered{{"user", "A fox?"}, {"assistant", "Yes, one."}, {"user", "Why?"}, {"assistant", "Who knows?"}};

ChatTemplate made(const std::string& source) {
  return ChatTemplate(source, "t.jinja", {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
}

std::string rendered(const std::string& source, bool asks = true, const Talk& talk = kTalk) {
  return made(source).render(talk, asks);
}

std::string named(const std::string& name, bool asks, const Talk& talk) {
  return rendered(test::kChatTemplates.at(name), asks, talk);
}

void refused(const std::string& source, const std::string& part) {
  BOOST_CHECK_EXCEPTION(rendered(source), FormatError, [&](const FormatError& e) {
    BOOST_TEST_MESSAGE(e.what());
    return std::string(e.what()).starts_with("t.jinja") && std::string(e.what()).find(part) != std::string::npos;
  });
}

// What the template has the assistant say, each answer in brackets.
std::string answers(const std::string& source, const Talk& talk = kAnswered) {
  const ChatText found = made(source).render_answers(talk);
  BOOST_CHECK_EQUAL(found.text, rendered(source, false, talk));
  std::string all;
  for (const auto& [begin, end] : found.answers) all += "[" + found.text.substr(begin, end - begin) + "]";
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(conversations_are_written_as_templates_say) {
  BOOST_CHECK_EQUAL(named("chatml", true, {{"user", "Hi"}}),
                    "<|im_start|>system\nBe helpful.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
                    "<|im_start|>assistant\n");
  BOOST_CHECK_EQUAL(named("instructions", false, kTalk),
                    "<s>[INST] <<SYS>>\n Be brief. \n<</SYS>>\n\nWhat's a \"fox\"? [/INST] An animal. </s>"
                    "<s>[INST] Why? [/INST]");
  BOOST_CHECK_EQUAL(named("turns", true, {{"user", " Hi "}, {"assistant", "Yes"}}),
                    "<s><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nYes<end_of_turn>\n"
                    "<start_of_turn>model\n");
  BOOST_CHECK_EQUAL(named("reasoning", true, {{"user", "Hi"}, {"assistant", "<think>\nhm\n</think>\n\nYes"}}),
                    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\nhm\n</think>\n\nYes<|im_end|>\n"
                    "<|im_start|>assistant\n");
  BOOST_CHECK_EQUAL(named("macros", true, kTalk),
                    "# Be brief.\n\n2/4 USER: What's a \"fox\"?\n3/4 ASSISTANT: An animal.\n4/4 USER: Why?");
}

BOOST_AUTO_TEST_CASE(answers_are_found) {
  const auto of = [](const char* name) { return answers(test::kChatTemplates.at(name)); };
  BOOST_CHECK_EQUAL(of("chatml"), "[Yes, one.<|im_end|>\n][Who knows?<|im_end|>\n]");
  BOOST_CHECK_EQUAL(of("instructions"), "[ Yes, one. </s>][ Who knows? </s>]");
  BOOST_CHECK_EQUAL(of("headers"), "[Yes, one.<|eot_id|>][Who knows?<|eot_id|>]");
  BOOST_CHECK_EQUAL(of("turns"), "[Yes, one.<end_of_turn>\n][Who knows?<end_of_turn>\n]");
  // The conversation up to the first answer ends in another way than the whole one goes on.
  BOOST_CHECK_EQUAL(of("ended"), "[Yes, one.<|end|>\n<][Who knows?<|end|>\n</s>]");
  BOOST_CHECK_EQUAL(of("reasoning"), "[Yes, one.<|im_end|>\n][<think>\n\n</think>\n\nWho knows?<|im_end|>\n]");
  BOOST_CHECK_EQUAL(of("flags"), "[Yes, one.<end>][Who knows?<end>]");  // what asks has <think>, what is said has not
  BOOST_CHECK_EQUAL(of("marked"), "[Yes, one.</s>][Who knows?</s>]");
  for (const char* content : {"e", "end", "think", ""})  // parts of what is around them
    BOOST_CHECK_EQUAL(answers(test::kChatTemplates.at("reasoning"), {{"user", "Hi"}, {"assistant", content}, kTalk[1]}),
                      "[" + std::string(content) + "<|im_end|>\n]");
  BOOST_CHECK_EQUAL(answers(test::kChatTemplates.at("chatml"), {{"user", "Hi"}}), "");
  BOOST_CHECK_EXCEPTION(
      answers("{% for m in messages %}{{ m.content if loop.last else '-' }}{% endfor %}"), FormatError,
      [](const FormatError& e) { return std::string(e.what()).find("message 2") != std::string::npos; });
}

BOOST_AUTO_TEST_CASE(tokens_of_answers_are_told) {
  Tokenizer tokenizer = byte_tokenizer();
  tokenizer.before = {'(', 256}, tokenizer.behind = {256, ')', ')'};  // a template writes its own
  const std::string mark = "<|endoftext|>";
  const std::vector<int> expected{'a', 256, 256, 'b', '<', '|'};
  BOOST_TEST(encode_chat(tokenizer, "a" + mark + mark + "b<|") == expected, boost::test_tools::per_element());
  BOOST_CHECK(encode_chat(tokenizer, "").empty());
  const ChatTokens found = encode_chat(tokenizer, ChatText{"ab" + mark + "cd" + mark, {{1, 15}, {16, 17}, {17, 20}}});
  const std::vector<int> all{'a', 'b', 256, 'c', 'd', 256};
  const std::vector<bool> said{false, true, true, false, true, false};
  BOOST_TEST(found.tokens == all, boost::test_tools::per_element());
  BOOST_TEST(found.is_answer == said, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(what_is_not_done_is_shown) {
  refused("a\n{% include 'x' %}", "t.jinja:2: {% include 'x' %}: is not supported");
  refused("{% raw %}{% endraw %}", "{% raw %}: is not supported");
  refused("{{ messages | xmlattr }}", "{{ messages | xmlattr }}: 'xmlattr': this filter is not supported");
  refused("{{ 1 is prime }}", "'prime': this test is not supported");
  refused("{{ messages | sort }}", "the filter 'sort' is not supported");
  refused("{% if true %}", "the end: where {% endif %} is due");
  refused("{% endfor %}", "{% endfor %}: is not supported");
  refused("{% break %}", "{% break %}: is in no loop");
  refused("{% for a in [1] %}{% macro f() %}{% endmacro %}{% endfor %}", "a macro within a loop");
  refused("{% for a in [1] %}{{ loop.depth }}{% endfor %}", "'depth': 'loop' has no such field here");
  refused("{% for a in [1] %}{{ loop }}{% endfor %}", "'loop' as a value is not supported");
  refused("{{ 'a }}", "without }}");
  refused("{{ (1 }}", "without }}");
  refused("{{ f(1 2) }}", "',' is due");
  refused("{{ 1 < 2 < 3 }}", "a chain of comparisons");
  refused("{{ 2 ** 3 }}", "'**': is not supported");
  refused("{{ f(*x) }}", "a value is due");
  refused("{{ varargs }}", "'varargs': is not supported");
  refused("{{ 1 $ 2 }}", "'$' is not supported");
  refused("{{ '\x1b[31m' $ }}", "t.jinja:1: {{ '\\x1b[31m' $ }}: '$' is not supported");
  refused("{{ '\\N{DASH}' }}", "'\\N' is not supported");
}

BOOST_AUTO_TEST_CASE(what_python_does_not_do_is_refused) {
  refused("\n\n{{ messages.append(1) }}", "t.jinja:3: the method 'append' of a value of type list");
  refused("{{ 'a'.format() }}", "the method 'format' of a value of type str is not supported");
  refused("{{ raise_exception('no system') }}", "the template refuses this: no system");
  refused("{{ f(1) }}", "'f' is no function here");
  refused("{{ 1 + 'a' }}", "'+' of int and str");
  refused("{{ x.y }}", "'y' of a value that is not defined");
  refused("{{ 1 // 0 }}", "division by zero");
  refused("{{ 1 in 'a' }}", "'in' of int and str");
  refused("{{ none[1:] }}", "a slice of a value of type None");
  refused("{% for a, b in [1] %}{% endfor %}", "is not 2 values");
  refused("{% macro f(a) %}{% endmacro %}{{ f(b=1) }}", "'f' has no argument 'b'");
  refused("{{ 'a' | replace('a') }}", "'replace' lacks the argument 'new'");
  refused("{{ x | tojson }}", "tojson of a value of type undefined");
  refused("{{ range(3) }}", "a value of type range as text");
  refused("{{ messages | select | length }}", "'length' of a generator");
  refused("{{ 'a' + ('b' | safe) }}", "safe");
  refused("{{ x | int }}", "'int' of a value that is not defined");
  refused("{{ x | dictsort }}", "'dictsort' of a value that is not defined");
  refused("{{ [['a']] | map(attribute='0') | list }}", "the attribute '0' is not supported");
  refused("{{ {'values': 1}.values }}", "the method 'values' of a value of type dict is only called here");
  refused("{{ messages[0]['items'] is defined }}", "the method 'items' of a value of type dict");
  refused("{{ 'a'.upper is defined }}", "the method 'upper' of a value of type str");
  refused("{{ messages.index is defined }}", "the method 'index' of a value of type list");
  refused("{{ '\u00e9' | upper }}", "'upper' of letters beyond ASCII");
  refused("{{ 'a\xff' | lower }}", "'lower' of ");  // without tables of Unicode, of letters beyond ASCII
}

// Names that are texts of the template may have any bytes.
BOOST_AUTO_TEST_CASE(messages_are_safe_on_a_terminal) {
  refused("{{ x['\\x1b[2J\\nb'] }}", "t.jinja:1: '\\x1b[2J\\x0ab' of a value that is not defined");
  refused("{{ messages | map('\\x1b[2J') | list }}", "the filter '\\x1b[2J' is not supported");
  refused("{{ messages | map(attribute='\\n.') | list }}", "the attribute '\\x0a.' is not supported");
  refused("{{ messages | select('\\x1b[2J') | list }}", "the test '\\x1b[2J' is not supported");
}

// An argument that is not defined is given all the same.
BOOST_AUTO_TEST_CASE(arguments_that_are_not_defined) {
  for (const char* source : {"messages[x:]", "messages[::x]", "range(x)", "range(2, x)", "'a b'.split(x)",
                             "'a'.strip(x)", "'a' | trim(x)", "'a' | replace('a', 'b', x)", "[1] | tojson(indent=x)"})
    refused("{{ " + std::string(source) + " }}", "of a value of type undefined");
}

// What is left of a generator depends on when Python takes its items.
BOOST_AUTO_TEST_CASE(generators_of_which_some_was_used) {
  for (const char* use : {"{{ u | first }}", "{{ 1 in u }}", "{% for a in u %}{% break %}{% endfor %}",
                          "{% set v = u | select %}", "{% for a in u %}{{ u | list }}{% endfor %}"})
    refused("{% set u = [1, 2, 3] | select %}" + std::string(use) + "{{ u | list }}", "a generator of which some was");
}

BOOST_AUTO_TEST_CASE(numbers_are_not_too_large) {
  refused("{{ 1" + std::string(400, '0') + ".0 }}", "is too large");
  refused("{{ '1e300' | int }}", "'int' of a number beyond 9e+18");
  refused("{{ range('-9223372036854775808' | int, 5) }}", "'range' of a number beyond 2^53");
}

// A template cannot take the machine.
BOOST_AUTO_TEST_CASE(templates_have_limits) {
  refused("{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}", "steps");
  refused("{{ range(10000000) }}", "'range' of more than");
  refused("{{ 'a' * 100000000 }}", "a value of more than");
  refused("{% set ns = namespace(t='aaaaaaaa') %}{% for i in range(30) %}{% set ns.t = ns.t ~ ns.t %}{% endfor %}",
          "a value of more than");
  refused("{% set ns = namespace(t=[1]) %}{% for i in range(30) %}{% set ns.t = [ns.t, ns.t] %}{% endfor %}",
          "a value of more than");
  refused("{% set ns = namespace(t=[]) %}{% for i in range(99) %}{% set ns.t = [ns.t] %}{% endfor %}",
          "lists or dicts within each other");
  refused("{% set t = 'ab' * 4000000 %}{% for i in range(9999) %}{% set x = 'ba' * 99 ~ i in t %}{% endfor %}",
          "steps");
  refused("{% set t = 'a' * 8000000 %}{% for i in range(9999) %}{% set x = t ~ i %}{% endfor %}", "steps");
  refused("{% set t = 'a' * 8000000 %}{{ t }}{{ t }}{{ t }}", "a value of more than");
  refused("{% set t = 'a' * 8000000 %}{{ t | replace(old='a' * 4000000 ~ 'b', new='') }}", "steps");
  refused("{% set t = 'a' * 8000000 %}{{ t.split(sep='a' * 4000000 ~ 'b') }}", "steps");
  refused("{% set t = 'a' * 400000 %}{% for i in range(99) %}{% set x = t | first %}{% endfor %}", "steps");
  refused("{% set t = 'a' * 400000 %}{% for i in range(99) %}{% set x = t[0] ~ t[2:3] %}{% endfor %}", "steps");
  refused("{% set t = ('a' * 1000 ~ ' ') * 1000 %}{% set x = t.split() | map('replace', 'a', 'b' * 4000) %}",
          "a value of more than");
  refused("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "parts within each other");
  refused("{{ " + std::string(1000, '(') + "1" + std::string(1000, ')') + " }}", "nested too deeply");
  refused("{{ " + std::string(1000, '-') + "1 }}", "nested too deeply");
  std::string sum = "1", filters = "1", choices = "1", blocks;
  for (int i = 0; i < 50'000; ++i) {
    sum += " + 1";
    filters += " | string";
    choices += " if 0 else 1";
    if (i < 1000) blocks += "{% if true %}";
  }
  refused("{{ " + sum + " }}", "nested too deeply");
  refused("{{ " + filters + " }}", "nested too deeply");
  refused("{{ " + choices + " }}", "nested too deeply");
  refused(blocks, "blocks within each other");
  refused(blocks, "t.jinja:1: ");
  refused(std::string((1 << 20) + 1, 'a'), "1048577 bytes, more than 1048576");
}

BOOST_AUTO_TEST_CASE(a_folder_has_its_template) {
  const test::Folder folder("chat");
  BOOST_CHECK(!read_chat_template(folder.path));
  folder.write("special_tokens_map.json", R"({"bos_token": "<a>", "eos_token": "<e>"})");
  folder.write("tokenizer_config.json",
               R"({"bos_token": {"content": "<b>"}, "chat_template": "{{ bos_token ~ eos_token }}old"})");
  BOOST_CHECK_EQUAL(read_chat_template(folder.path)->render(kTalk, true), "<b><e>old");
  folder.write("tokenizer_config.json",
               R"({"chat_template": [{"name": "tool", "template": "t"}, {"name": "default", "template": "d"}]})");
  BOOST_CHECK_EQUAL(read_chat_template(folder.path)->render(kTalk, true), "d");
  folder.write("chat_template.jinja", "{{ messages[1].content }}");
  BOOST_CHECK_EQUAL(read_chat_template(folder.path)->render(kTalk, true), "What's a \"fox\"?");
  folder.write("chat_template.jinja", "{% extends 'x' %}");
  BOOST_CHECK_THROW(read_chat_template(folder.path), FormatError);
}
