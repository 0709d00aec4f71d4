// Templates of chats in the manner of those that models come with.
#pragma once

#include <map>
#include <string>

namespace test {

inline const std::map<std::string, std::string> kChatTemplates{
    // ChatML, and a system message if there is none.
    {"chatml", R"({% for m in messages %}{% if loop.first and m['role'] != 'system' %}{{ '<|im_start|>system
Be helpful.<|im_end|>
' }}{% endif %}{{ '<|im_start|>' + m['role'] + '
' + m['content'] + '<|im_end|>' + '
' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %})"},
    // The system message is part of the first question; roles alternate; no text asks.
    {"instructions", R"({%- if messages and messages[0].role == 'system' %}
    {%- set rest = messages[1:] %}
    {%- set before = '<<SYS>>\n' + messages[0]['content'] + '\n<</SYS>>\n\n' %}
{%- else %}
    {%- set rest, before = (messages, false) %}
{%- endif %}
{%- for m in rest %}
    {%- if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('user and assistant take turns') }}
    {%- endif %}
    {%- set said = before + m.content if loop.index0 == 0 and before != false else m.content %}
    {%- if m.role == 'user' %}
        {{- bos_token + '[INST] ' + said.strip() + ' [/INST]' }}
    {%- elif m['role'] == 'assistant' %}
        {{- ' ' ~ said | trim ~ ' ' + eos_token }}
    {%- endif %}
{%- endfor %})"},
    // Headers with a date, and a version for training.
    {"headers", R"({{- bos_token }}
{%- set day = day | default("1 May 2024") if strftime_now is undefined else '1 May 2024' %}
{%- if messages[0]['role'] == 'system' %}{% set system = messages[0]['content']|trim %}{% set messages = messages[1:] %}
{%- else %}{% set system = "" %}{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\nToday: " + day + "\n\n" }}
{{- system }}
{{- "<|eot_id|>" }}
{%- for m in messages %}
    {%- if not (m.role == 'tool' or 'tool_calls' in m) %}
        {{- '<|start_header_id|>' + m['role'] + '<|end_header_id|>\n\n'+ m['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in m %}
        {{- m.tool_calls[0].function | tojson }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
)"},
    // Roles of another name, and no system message.
    {"turns", R"({{ bos_token }}{% if messages and messages[0]['role'] == 'system' %}
{{ raise_exception('no system message') }}{% endif %}
{% for m in messages %}
{% if m['role'] == 'assistant' %}
{% set role = 'model' %}
{% else %}
{% set role = m['role'] %}
{% endif %}
{{ '<start_of_turn>' + role + '
' + m['content'] | trim + '<end_of_turn>
' }}{% endfor %}
{% if add_generation_prompt %}
{{ '<start_of_turn>model
' }}{% endif %})"},
    // The end of a text follows only what asks for nothing.
    {"ended", R"({% for m in messages %}{% if m['role'] in ['user', 'system', 'assistant'] %}{{ '<|' ~ m.role ~ '|>
' + m['content'] + '<|end|>
' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>
' }}{% else %}{{ eos_token }}{% endif %})"},
    // Reasoning is kept of the last answer alone.
    {"reasoning", R"({%- set ns = namespace(searching=true, last=messages|length - 1) %}
{%- for m in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- set is_tool = m.content.startswith('<tool>') and m.content.endswith('</tool>') %}
    {%- if ns.searching and m.role == "user" and not(is_tool) %}
        {%- set ns.searching = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for m in messages %}
    {%- if m.content is string %}{%- set content = m.content %}{%- else %}{%- set content = '' %}{%- endif %}
    {%- if (m.role == "user") or (m.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + m.role + '\n' + content + '<|im_end|>' + '\n' }}
    {%- elif m.role == "assistant" %}
        {%- set reasoning = '' %}
        {%- if m.reasoning_content is defined and m.reasoning_content is not none %}
            {%- set reasoning = m.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last and (loop.last or reasoning) %}
            {{- '<|im_start|>' + m.role + '\n<think>\n' + reasoning.strip('\n') + '\n</think>\n\n' }}
            {{- content.lstrip('\n') }}
        {%- else %}
            {{- '<|im_start|>' + m.role + '\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}
{%- endif %})"},
    // Flags in a namespace, and a question that begins anew after an answer.
    {"flags", R"({% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}
{% set ns = namespace(is_first=true, system='') %}
{%- for m in messages %}{%- if m['role'] == 'system' %}{%- if ns.is_first %}
{% set ns.system = ns.system + m['content'] %}{% set ns.is_first = false %}
{%- else %}{% set ns.system = ns.system + '\n\n' + m['content'] %}{%- endif %}{%- endif %}{%- endfor -%}
{{ bos_token }}{{ ns.system }}
{%- for m in messages %}{%- if m['role'] == 'user' %}{{ '<User>' + m['content'] }}
{%- elif m['role'] == 'assistant' and m['content'] is not none %}{% set content = m['content'] %}
{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}
{{ '<Assistant>' + content + '<end>' }}{%- endif %}
{%- endfor -%}{% if add_generation_prompt %}{{ '<Assistant><think>\n' }}{% endif %})"},
    // Macros, parts of messages, and a loop that ends before the last.
    {"macros", R"({%- macro shown(content, mark='', deep=none) -%}
{%- if content is string -%}{{ mark + content | trim }}
{%- elif content is iterable -%}{%- for part in content -%}{{ part['text'] }}{%- endfor -%}
{%- else -%}{{ raise_exception("what is this?") }}{%- endif -%}
{%- endmacro -%}
{%- set found = namespace(system=none) -%}
{%- for m in messages if m.role in ('system', 'developer') -%}
{%- set found.system = m.content -%}{%- break -%}
{%- endfor -%}
{{- shown(found.system, mark='# ') if found.system else '(none)' }}
{% for m in messages %}
    {%- if m.role == 'system' %}{% continue %}{% endif %}
    {{- '\n' ~ loop.index ~ '/' ~ loop.length ~ ' ' ~ m.role | upper ~ ': ' }}{{ shown(m.content) -}}
    {%- if not loop.last and loop.nextitem.role == m.role %}{{ ' ...' }}{% endif %}
{%- else %}
nothing
{%- endfor %})"},
    // For training: what the assistant says is marked.
    {"marked", R"({%- for m in messages %}
{%- if m.role == 'assistant' %}
{{- '<|assistant|>\n' }}{% generation %}{{ m.content + eos_token }}{% endgeneration %}{{ '\n' }}
{%- else %}
{{- '<|' + m.role + '|>\n' + m.content + eos_token + '\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %})"}};

}  // namespace test
