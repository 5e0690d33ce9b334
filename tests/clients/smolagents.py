"""smolagents: a CodeAgent whose code runs in E2BExecutor. The model is a list of answers."""

from smolagents import AgentError, CodeAgent, ChatMessage, MessageRole, Model, tool
from smolagents.monitoring import AgentLogger, LogLevel
from smolagents.remote_executors import E2BExecutor
from steps import run, step


class Answers(Model):
    """A model that says what it was given, one answer a turn."""

    def __init__(self, *codes):
        super().__init__(model_id="answers")
        self.codes = list(codes)
        self.seen = []

    def generate(self, messages, **_):
        self.seen.append(str(messages))
        return ChatMessage(role=MessageRole.ASSISTANT, content=f"Thought: go on\n<code>\n{self.codes.pop(0)}\n</code>")


@tool
def double(number: int) -> int:
    """Doubles a number.

    Args:
        number: what to double
    """
    return 2 * number


def agent_run():
    model = Answers("import os\nhalf = double(10)\nprint('inside', os.getcwd())", "final_answer(half + double(11))")
    with CodeAgent(tools=[double], model=model, executor_type="e2b") as agent:
        assert agent.run("What is 2 * 10 + 2 * 11?") == 42
        assert "inside /home/user" in model.seen[1], model.seen[1]


def agent_error():
    model = Answers("1 / 0", "final_answer('seen')")
    with CodeAgent(tools=[], model=model, executor_type="e2b") as agent:
        assert agent.run("Divide by zero.") == "seen"
        assert "ZeroDivisionError" in model.seen[1], model.seen[1]


def variables(executor):
    executor.send_variables({"table": [1, 2, 3], "name": "x"})
    assert executor("sum(table), name").output == "(6, 'x')"


def picture(executor):
    output = executor("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.gcf()").output
    assert output.format == "PNG" and output.width > 100, output


def shell(executor):
    assert "pip 2" in executor("!pip --version").logs


def raised(executor):
    try:
        executor("raise KeyError('gone')")
    except AgentError as error:
        assert "KeyError" in str(error) and "gone" in str(error), error
    else:
        raise AssertionError("an error in the code raised nothing")


def main():
    step("agent with a tool, state from step to step, final answer", agent_run)
    step("an error reaches the agent", agent_error)
    executor = E2BExecutor([], AgentLogger(level=LogLevel.OFF), timeout=120)
    try:
        step("variables", variables, executor)
        step("picture", picture, executor)
        step("shell line", shell, executor)
        step("exception", raised, executor)
    finally:
        executor.cleanup()


if __name__ == "__main__":
    run(main)
