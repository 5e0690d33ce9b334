"""Haystack: an Agent with the E2B toolset. The chat generator is a list of answers."""

from haystack import component
from haystack.components.agents import Agent
from haystack.dataclasses import ChatMessage, ToolCall
from haystack_integrations.tools.e2b import E2BSandbox, E2BToolset, ReadFileTool, RunBashCommandTool
from steps import run, step


@component
class Answers:
    """A chat generator that says what it was given, one answer a turn."""

    def __init__(self, *answers):
        self.answers = list(answers)

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages, tools=None, **_):
        answer = self.answers.pop(0)
        if isinstance(answer, str):
            return {"replies": [ChatMessage.from_assistant(answer)]}
        return {"replies": [ChatMessage.from_assistant(tool_calls=[ToolCall(*answer)])]}


def agent():
    toolset = E2BToolset(environment_vars={"MADE": "yes"})
    model = Answers(
        ("write_file", {"path": "/home/user/dir/note.txt", "content": "kept \u00e9"}),
        ("run_bash_command", {"command": "echo $MADE; cat dir/note.txt; echo err >&2; exit 3"}),
        ("read_file", {"path": "/home/user/dir/note.txt"}),
        ("list_directory", {"path": "/home/user/dir"}),
        "done")
    try:
        said = Agent(chat_generator=model, tools=toolset).run(messages=[ChatMessage.from_user("go")])["messages"]
        results = [message.tool_call_result.result for message in said if message.tool_call_result]
        assert len(results) == 4, said
        assert "yes\nkept \u00e9" in results[1] and "err" in results[1] and "3" in results[1], results[1]
        assert results[2] == "kept \u00e9", results[2]
        assert "note.txt" in results[3], results[3]
    finally:
        toolset.close()


def shared():
    """Tools that are saved and loaded again have one sandbox together."""
    sandbox = E2BSandbox(timeout=120)
    tools = [RunBashCommandTool(sandbox), ReadFileTool(sandbox)]
    bash, read = (type(tool).from_dict(tool.to_dict()) for tool in tools)
    try:
        bash.invoke(command="echo shared > /tmp/note")
        assert read.invoke(path="/tmp/note") == "shared\n"
    finally:
        bash.close()


def main():
    step("agent that writes, runs, reads and lists", agent)
    step("tools saved and loaded, one sandbox", shared)


if __name__ == "__main__":
    run(main)
