"""Renders a chat template as transformers does, for lib/chat/jinja.cpp. Reads lines of JSON and answers each with one line.

The first line describes the template. Each further line asks for the text of one conversation. The template comes from a
model's repository and is not trusted: it runs in Jinja's sandbox, with limits on time and memory.
"""
import sys

sys.path[:] = [path for path in sys.path if path]  # no modules from the current directory
import datetime
import json
import resource
import signal

try:
    import jinja2.ext
    import jinja2.sandbox
except ImportError:
    print(json.dumps({"absent": True}), flush=True)
    sys.exit(0)


class Generation(jinja2.ext.Extension):
    """{% generation %} .. {% endgeneration %}: the text between them is trained on. Two characters of the caller mark it."""

    tags = {"generation"}
    begin = end = ""

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("marked"), [], [], body).set_lineno(line)

    def marked(self, caller):
        return self.begin + caller() + self.end


def stop(signal_number, frame):
    raise TimeoutError("it takes too long")


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def compiled(setup):
    Generation.begin, Generation.end = setup["generation"]
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    now = datetime.datetime.fromtimestamp(setup["now"])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = now.strftime
    return environment.from_string(setup["template"])


def text_of(error):
    return str(error) or type(error).__name__


def limited(seconds, work):
    """Returns what work() returns as {"text": ..}, or the reason why it failed as {"error": ..} or {"late": True}."""
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return {"text": work()}
    except jinja2.exceptions.TemplateSyntaxError as error:
        return {"error": f"line {error.lineno}: {text_of(error)}"}
    except TimeoutError:
        return {"late": True}
    except MemoryError:
        return {"error": "it needs too much memory"}
    except Exception as error:  # whatever an untrusted template does
        return {"error": text_of(error)}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def answer(template, setup, asked):
    variables = {**setup["variables"], "documents": None, **asked["variables"], "tools": asked["tools"] or None, "messages": asked["messages"],
                 "add_generation_prompt": asked["add_generation_prompt"]}
    return limited(setup["seconds"], lambda: template.render(**variables))


def main():
    setup = json.loads(sys.stdin.buffer.readline())
    resource.setrlimit(resource.RLIMIT_AS, (setup["bytes"], setup["bytes"]))
    signal.signal(signal.SIGALRM, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller ends, and then this process reads the end of its input
    template = None

    def prepare():
        nonlocal template
        template = compiled(setup)

    print(json.dumps(limited(setup["seconds"], prepare)), flush=True)
    for line in sys.stdin.buffer:
        print(json.dumps(answer(template, setup, json.loads(line))), flush=True)


main()
