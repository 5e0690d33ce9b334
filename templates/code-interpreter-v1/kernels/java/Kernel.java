import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.stream.Collectors;
import jdk.jshell.Diag;
import jdk.jshell.EvalException;
import jdk.jshell.JShell;
import jdk.jshell.JShellException;
import jdk.jshell.Snippet;
import jdk.jshell.Snippet.Kind;
import jdk.jshell.Snippet.SubKind;
import jdk.jshell.SnippetEvent;
import jdk.jshell.SourceCodeAnalysis;
import jdk.jshell.SourceCodeAnalysis.CompletionInfo;
import jdk.jshell.execution.LocalExecutionControlProvider;

/** The Java kernel: JShell in this very process. Commands come on descriptor 3, events go to 4. */
public class Kernel {
    private static final String[] IMPORTS = {
        "java.io.*", "java.math.*", "java.net.*", "java.nio.file.*", "java.util.*",
        "java.util.concurrent.*", "java.util.function.*", "java.util.prefs.*", "java.util.regex.*",
        "java.util.stream.*"
    };

    private final OutputStream events;
    private final JShell shell;
    private int count;
    private volatile boolean interrupted;

    // ---- events ----

    private static String quote(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < 0x20 || Character.isSurrogate(c)) {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }

    private void emit(String json) {
        byte[] line = (json + "\n").getBytes(StandardCharsets.UTF_8);
        synchronized (events) {
            try {
                events.write(line);
            } catch (IOException e) {
                Runtime.getRuntime().halt(1); // nobody reads any more
            }
        }
    }

    private void emitError(String name, String value, String traceback) {
        emit(String.format("{\"type\":\"error\",\"name\":%s,\"value\":%s,\"traceback\":%s}",
                quote(name), quote(value), quote(traceback)));
    }

    /** What is printed, as it is printed: a line's end comes apart from its text. */
    private PrintStream printer(String type) {
        OutputStream out = new OutputStream() {
            @Override
            public void write(int b) {
                write(new byte[] {(byte) b}, 0, 1);
            }

            @Override
            public void write(byte[] bytes, int from, int n) {
                String text = new String(bytes, from, n, StandardCharsets.UTF_8);
                emit("{\"type\":\"" + type + "\",\"text\":" + quote(text) + "}");
            }
        };
        return new PrintStream(out, true, StandardCharsets.UTF_8) {};
    }

    // ---- cells ----

    private void rejected(Snippet snippet) {
        String all = shell.diagnostics(snippet)
                .map(diag -> diag.getMessage(Locale.ROOT))
                .collect(Collectors.joining("\n"));
        emitError("CompilationError", all.lines().findFirst().orElse("The code does not compile"),
                snippet.source() + "\n" + all);
    }

    private void threw(JShellException exception) {
        String name = exception instanceof EvalException eval
                ? eval.getExceptionClassName() : exception.getClass().getSimpleName();
        String message = String.valueOf(exception.getMessage());
        StringBuilder trace = new StringBuilder(name + ": " + message);
        for (StackTraceElement frame : exception.getStackTrace()) {
            trace.append("\n    at ").append(frame);
        }
        emitError(name, message, trace.toString());
    }

    private static boolean hasValue(Snippet snippet) {
        return snippet.kind() == Kind.EXPRESSION
                || snippet.subKind() == SubKind.TEMP_VAR_EXPRESSION_SUBKIND;
    }

    /** True when the cell goes on. */
    private boolean evaluated(SnippetEvent event, boolean isLast) {
        Snippet snippet = event.snippet();
        if (event.causeSnippet() != null) {
            return true; // an earlier one that was brought up to date
        }
        if (interrupted) {
            emitError("Interrupted", "The cell was interrupted", "");
        } else if (event.status() == Snippet.Status.REJECTED) {
            rejected(snippet);
        } else if (event.exception() != null) {
            threw(event.exception());
        } else {
            if (isLast && event.value() != null && hasValue(snippet)) {
                emit("{\"type\":\"result\",\"data\":{\"text/plain\":" + quote(event.value())
                        + "},\"main\":true}");
            }
            return true;
        }
        return false;
    }

    private void cell(String code) {
        SourceCodeAnalysis analysis = shell.sourceCodeAnalysis();
        String rest = code;
        while (!rest.isBlank()) {
            CompletionInfo part = analysis.analyzeCompletion(rest);
            boolean whole = part.completeness().isComplete();
            String source = whole ? part.source() : rest;
            String remaining = whole ? part.remaining() : "";
            for (SnippetEvent event : shell.eval(source)) {
                if (!evaluated(event, remaining.isBlank())) {
                    return;
                }
            }
            rest = remaining;
        }
    }

    // ---- commands ----

    private static String decode(String word) {
        return word.equals("-") ? ""
                : new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }

    /** Sets properties, because a running JVM's environment cannot change; says what they were. */
    private static List<String[]> set(String list) {
        List<String[]> before = new ArrayList<>();
        for (String item : list.equals("-") ? new String[0] : list.split(",")) {
            String[] pair = decode(item).split("=", 2);
            before.add(new String[] {pair[0], System.getProperty(pair[0])});
            System.setProperty(pair[0], pair[1]);
        }
        return before;
    }

    private static void restore(List<String[]> before) {
        for (String[] pair : before) {
            if (pair[1] == null) {
                System.clearProperty(pair[0]);
            } else {
                System.setProperty(pair[0], pair[1]);
            }
        }
    }

    /** A clone of this process would draw the same numbers. */
    private static void freshen() throws IOException {
        try (InputStream source = new FileInputStream("/dev/urandom")) {
            long seed = new java.math.BigInteger(source.readNBytes(8)).longValue();
            Class<?> holder = Class.forName("java.lang.Math$RandomNumberGeneratorHolder");
            var field = holder.getDeclaredField("randomNumberGenerator");
            field.setAccessible(true);
            ((Random) field.get(null)).setSeed(seed);
        } catch (ReflectiveOperationException e) {
            System.err.println("Math.random() could not be seeded anew: " + e);
        }
    }

    private void run(String[] words) throws IOException {
        set(words[4]);
        if (words[5].equals("1")) {
            freshen();
        }
        List<String[]> before = set(words[3]);
        emit("{\"type\":\"count\",\"count\":" + ++count + "}");
        interrupted = false;
        cell(decode(words[2]));
        restore(before);
        emit("{\"type\":\"done\",\"id\":" + words[1] + "}");
    }

    private void serve(InputStream commands) throws IOException {
        BufferedReader lines =
                new BufferedReader(new InputStreamReader(commands, StandardCharsets.US_ASCII));
        sun.misc.Signal.handle(new sun.misc.Signal("INT"), signal -> {
            interrupted = true;
            shell.stop();
        });
        emit("{\"type\":\"ready\"}");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            run(line.split(" "));
        }
    }

    private Kernel(OutputStream events) {
        this.events = events;
        System.setOut(printer("stdout"));
        System.setErr(printer("stderr"));
        shell = JShell.builder().executionEngine(new LocalExecutionControlProvider(), Map.of()).build();
        for (String name : IMPORTS) {
            shell.eval("import " + name + ";");
        }
    }

    public static void main(String[] args) throws IOException {
        new Kernel(new FileOutputStream("/dev/fd/4")).serve(new FileInputStream("/dev/fd/3"));
        System.exit(0);
    }
}
