"""Chat templates as the Jinja programs of their models, with what is learnt between {% generation %} marks."""


def chatml(default="", last=""):
    """`last`: before the content of the last message, where the assistant has it."""
    system = "{%- if loop.first and message.role != 'system' %}{{- '<|im_start|>system\\n" + default + "<|im_end|>\\n' }}{%- endif %}"
    return ("{%- for message in messages %}" + (system if default else "") + "{{- '<|im_start|>' + message.role + '\\n' }}"
            "{%- if message.role == 'assistant' %}" +
            ("{%- set last = loop.last %}{%- if last %}{{- '" + last + "' }}{%- endif %}" if last else "{%- set last = false %}") +
            "{% generation %}{{- (message.content.lstrip('\\n') if last else message.content) + '<|im_end|>' }}{% endgeneration %}"
            "{%- else %}{{- message.content + '<|im_end|>' }}{%- endif %}{{- '\\n' }}{%- endfor %}"
            "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n" + last + "' }}{%- endif %}")


def qwen(default="", last=""):
    """With tools, as Qwen 2.5 (`default`) and Qwen 3 (`last`) have them."""
    return ("""{%- set said = messages[0].content if messages[0].role == 'system' else '""" + default + """' -%}
{%- if tools or messages[0].role == 'system' or '""" + default + """' -%}{{- '<|im_start|>system\\n' + said -}}
{%- if tools -%}{%- if messages[0].role == 'system' or said -%}{{- '\\n\\n' -}}{%- endif -%}
{{- '# Tools\\n\\nYou may call one or more functions to assist with the user query.\\n\\nYou are provided with function signatures' -}}
{{- ' within <tools></tools> XML tags:\\n<tools>' -}}{%- for tool in tools -%}{{- '\\n' + (tool | tojson) -}}{%- endfor -%}
{{- '\\n</tools>\\n\\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call>' -}}
{{- ' XML tags:\\n<tool_call>\\n{"name": <function-name>, "arguments": <args-json-object>}\\n</tool_call>' -}}{%- endif -%}
{{- '<|im_end|>\\n' -}}{%- endif -%}
{%- for message in messages -%}{%- set before = messages[loop.index0 - 1].role if loop.index0 else '' -%}
{%- set behind = messages[loop.index0 + 1].role if not loop.last else '' -%}
{%- if message.role == 'assistant' -%}
{{- '<|im_start|>assistant\\n' -}}{%- generation -%}{%- if loop.last -%}{{- '""" + last + """' -}}{%- endif -%}
{{- message.content.lstrip('\\n') if loop.last and '""" + last + """' else message.content -}}
{%- for call in message.tool_calls -%}{%- if message.content or not loop.first -%}{{- '\\n' -}}{%- endif -%}
{{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' + (call.function.arguments | tojson) + '}\\n</tool_call>' -}}
{%- endfor -%}{{- '<|im_end|>' -}}{%- endgeneration -%}{{- '\\n' -}}
{%- elif message.role == 'tool' -%}
{{- ('<|im_start|>user' if before != 'tool' else '') + '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' -}}
{{- '<|im_end|>\\n' if behind != 'tool' else '' -}}
{%- elif message.role == 'user' or not loop.first -%}{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}
{%- endif -%}{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}""")


LLAMA2 = """{%- set offset = 1 if messages[0].role == 'system' else 0 -%}
{%- for message in messages[offset:] -%}
{%- if loop.first and offset -%}
{%- set content = '<<SYS>>\\n' + messages[0].content + '\\n<</SYS>>\\n\\n' + message.content -%}
{%- else -%}{%- set content = message.content -%}{%- endif -%}
{%- if message.role == 'user' -%}{{- bos_token + '[INST] ' + content.strip() + ' [/INST]' -}}
{%- else -%}{%- generation -%}{{- ' ' + content.strip() + ' ' + eos_token -}}{%- endgeneration -%}{%- endif -%}
{%- endfor -%}"""
LLAMA3 = """{{- bos_token -}}{%- for message in messages -%}
{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' -}}
{%- if message.role == 'assistant' -%}
{%- generation -%}{{- message.content.strip() + '<|eot_id|>' -}}{%- endgeneration -%}
{%- else -%}{{- message.content.strip() + '<|eot_id|>' -}}{%- endif -%}{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}{%- endif -%}"""
LLAMA31 = """{{- bos_token + '<|start_header_id|>system<|end_header_id|>\\n\\n' + ('Environment: ipython\\n' if tools else '') -}}
{{- 'Cutting Knowledge Date: December 2023\\nToday Date: 26 Jul 2024\\n\\n' -}}
{%- set offset = 1 if messages[0].role == 'system' else 0 -%}
{{- (messages[0].content.strip() if offset else '') + '<|eot_id|>' -}}
{%- for message in messages[offset:] -%}
{{- '<|start_header_id|>' + ('ipython' if message.role == 'tool' else message.role) + '<|end_header_id|>\\n\\n' -}}
{%- if loop.first and tools -%}
{{- 'Given the following functions, please respond with a JSON for a function call with its proper arguments that best answers the given' -}}
{{- ' prompt.\\n\\nRespond in the format {"name": function name, "parameters": dictionary of argument name and its value}.' -}}
{{- 'Do not use variables.\\n\\n' -}}{%- for tool in tools -%}{{- (tool | tojson(indent=4)) + '\\n\\n' -}}{%- endfor -%}{%- endif -%}
{%- if message.role == 'tool' -%}{{- (message.content | tojson) + '<|eot_id|>' -}}
{%- elif message.role != 'assistant' -%}{{- message.content.strip() + '<|eot_id|>' -}}
{%- else -%}{%- generation -%}{%- if message.tool_calls -%}{%- set call = message.tool_calls[0].function -%}
{{- '{"name": "' + call.name + '", "parameters": ' + (call.arguments | tojson) + '}' -}}
{%- else -%}{{- message.content.strip() -}}{%- endif -%}{{- '<|eot_id|>' -}}{%- endgeneration -%}{%- endif -%}{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}{%- endif -%}"""
MISTRAL = """{{- bos_token -}}{%- for message in messages -%}
{%- if message.role == 'user' -%}{{- '[INST] ' + message.content + ' [/INST]' -}}
{%- else -%}{%- generation -%}{{- message.content + eos_token -}}{%- endgeneration -%}{%- endif -%}{%- endfor -%}"""
# The last user's turn is with the system's text whatever comes behind it, and tools are JSON whatever they say: so has Mistral's own library.
MISTRAL_V3 = """{%- set offset = 1 if messages[0].role == 'system' else 0 -%}{%- set seen = namespace(user=0) -%}
{%- for message in messages -%}{%- if message.role == 'user' -%}{%- set seen.user = loop.index0 - offset -%}{%- endif -%}{%- endfor -%}
{{- bos_token -}}{%- for message in messages[offset:] -%}
{%- if message.role == 'user' -%}{%- set last = loop.index0 == seen.user -%}
{{- '[AVAILABLE_TOOLS] ' + (tools | tojson) + '[/AVAILABLE_TOOLS]' if tools and last else '' -}}
{{- '[INST] ' + (messages[0].content + '\\n\\n' if offset and last else '') + message.content + '[/INST]' -}}
{%- elif message.role == 'tool' -%}
{{- '[TOOL_RESULTS] {"content": ' + message.content + ', "call_id": "' + message.tool_call_id + '"}[/TOOL_RESULTS]' -}}
{%- elif message.tool_calls -%}{%- generation -%}{{- '[TOOL_CALLS] [' -}}{%- for call in message.tool_calls -%}
{{- (', ' if not loop.first else '') + (call.function | tojson)[:-1] + ', "id": "' + call.id + '"}' -}}
{%- endfor -%}{{- ']' + eos_token -}}{%- endgeneration -%}
{%- else -%}{%- generation -%}{{- ' ' + message.content.strip() + eos_token -}}{%- endgeneration -%}{%- endif -%}{%- endfor -%}"""
ZEPHYR = """{%- for message in messages -%}{{- '<|' + message.role + '|>\\n' -}}
{%- if message.role == 'assistant' -%}
{%- generation -%}{{- message.content + eos_token -}}{%- endgeneration -%}
{%- else -%}{{- message.content + eos_token -}}{%- endif -%}{{- '\\n' -}}{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|assistant|>\\n' -}}{%- endif -%}"""
GEMMA = """{{- bos_token -}}{%- for message in messages -%}
{{- '<start_of_turn>' + ('model' if message.role == 'assistant' else 'user') + '\\n' -}}
{%- if message.role == 'assistant' -%}
{%- generation -%}{{- message.content.strip() + '<end_of_turn>' -}}{%- endgeneration -%}
{%- else -%}{{- message.content.strip() + '<end_of_turn>' -}}{%- endif -%}{{- '\\n' -}}{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<start_of_turn>model\\n' -}}{%- endif -%}"""

IM = ["<|im_start|>", "<|im_end|>"]
# Name: Jinja, special tokens, has it a system's turn?
TEMPLATES = {
    "chatml": (chatml(), IM, True),
    "qwen2": (chatml("You are a helpful assistant."), IM, True),
    "qwen2.5": (qwen("You are Qwen, created by Alibaba Cloud. You are a helpful assistant."), IM, True),
    "qwen3": (qwen(last="<think>\\n\\n</think>\\n\\n"), [*IM, "<think>", "</think>"], True),
    "smollm2": (chatml("You are a helpful AI assistant named SmolLM, trained by Hugging Face"), IM, True),
    "llama2": (LLAMA2, [], True),
    "llama3": (LLAMA3, ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"], True),
    "llama3.1": (LLAMA31, ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"], True),
    "mistral": (MISTRAL, [], False),
    "mistral-v3": (MISTRAL_V3, ["[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_CALLS]", "[TOOL_RESULTS]",
                                "[/TOOL_RESULTS]"], True),
    "zephyr": (ZEPHYR, [], True),
    "gemma": (GEMMA, ["<start_of_turn>", "<end_of_turn>"], False),
}
