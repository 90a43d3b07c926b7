"""Questions and answers as people have them: fields of other names, tables with line breaks in them."""

import csv
import io
import json
import pathlib
import shutil
import subprocess
import tempfile

from support import MPI_ENVIRONMENT, MPI_LIBRARIES, InFolder, main, run, tfmc

MODEL = """
model Mood(vocab = tokenizer.size, context = 24, width = 8) {
  wte  = Embedding(vocab, width)
  attn = SelfAttention(width, heads = 2)
  forward(tokens: int[B, T]) -> [B, T, vocab] {
    x = wte(tokens)
    return (x + attn(x)) @ wte.weight.T
  }
}
tokenizer TOKENIZER
data pairs(FILES, answers_only = true, pad = "#", end = ".")
train { loss = cross_entropy(ignore = "#"), batch = 4, sequence = 24, steps = 6, validate = every(3) }
"""
NAMES = 'prompt = "review", answer = "stars"'
LAST = "validation = 0.25"
# With what needs quotes in a table.
ROWS = [("It is,\nall in all, \"fine\"", 5), ("dull", 1), (",", 2), ("a\tb\r\nc", 4), (" ends, so ", 3), ("\"", 1),
        ("good", 4), ("\n", 2)]


def table(rows, names=("id", "stars", "review"), **form):
    text = io.StringIO()
    writer = csv.writer(text, **form)
    writer.writerow(names)
    writer.writerows((i, stars, review) for i, (review, stars) in enumerate(rows))
    return text.getvalue()


def documents(rows):
    return [json.dumps({"review": review, "stars": stars, "prompt": "none of these"}) for review, stars in rows]


class Data(InFolder):
    def write(self, name, text):
        pathlib.Path(self.folder, name).write_bytes(text.encode())

    def build(self, name, files, *arguments, tokenizer="chars(from = data)"):
        self.write(name + ".tfm", MODEL.replace("FILES", files).replace("TOKENIZER", tokenizer))
        result = tfmc("build", self.path(name + ".tfm"), "-o", self.path(name), *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return self.path(name)

    def losses(self, model, out, *arguments):
        self.ok(model, "train", "--out", out, *arguments)
        return self.logged(out)

    def logged(self, out):
        lines = map(json.loads, pathlib.Path(self.folder, out, "log.jsonl").read_text().splitlines())
        return [line.get("loss", line.get("validation_loss")) for line in lines if "checkpoint_seconds" not in line]

    def test_the_form_of_a_file_does_not_matter(self):
        self.write("a.csv", "\ufeff" + table(ROWS))
        self.write("unix.csv", table(ROWS, quoting=csv.QUOTE_ALL, lineterminator="\n"))
        self.write("a.tsv", table(ROWS, delimiter="\t"))
        self.write("a.jsonl", "\n".join(documents(ROWS)))
        self.write("a.json", "[" + ",\n".join(documents(ROWS)) + "]")
        model = self.build("forms", f'"a.csv", {NAMES}, {LAST}')
        expected = self.losses(model, "forms_csv")
        self.assertEqual(len(expected), 8)
        rows = json.loads(self.ok(model, "data", "--json", "--count", "8").stdout)["rows"]
        self.assertEqual([(row["prompt"], row["answer"]) for row in rows],
                         [(review, f"{stars}.") for review, stars in ROWS[:6]])
        for name in ("unix.csv", "a.tsv", "a.jsonl", "a.json"):
            with self.subTest(name):
                self.assertEqual(self.losses(model, "forms_" + name, "--data", name), expected)
        piped = run(model, "train", "--out", "forms_piped", "--data", "-", cwd=self.folder, stdin="\n".join(documents(ROWS)))
        self.assertEqual((piped.returncode, self.logged("forms_piped")), (0, expected), piped.stderr)
        with tempfile.TemporaryFile("w+") as file: # it has no name any more
            file.write("\n".join(documents(ROWS)))
            file.seek(0)
            unnamed = subprocess.run([model, "train", "--out", "forms_unnamed", "--data", "-"], cwd=self.folder, stdin=file,
                                     capture_output=True, text=True)
        self.assertEqual((unnamed.returncode, self.logged("forms_unnamed")), (0, expected), unnamed.stderr)
        # What a tab parts in lines has no line breaks.
        plain = [(review, stars) for review, stars in ROWS if not set(review) & set("\t\n")]
        self.write("plain.txt", "".join(f"{review}\t{stars}\n" for review, stars in plain))
        self.write("plain.csv", table(plain))
        lines = self.build("lines", f'"plain.txt", {LAST}')
        self.assertEqual(self.losses(self.build("plain", f'"plain.csv", {NAMES}, {LAST}'), "plain_csv"),
                         self.losses(lines, "plain_txt"))

    def test_validates_on_files_with_the_same_fields(self):
        self.write("train.csv", table(ROWS[:6]))
        self.write("held.jsonl", "\n".join(documents(ROWS[6:])))
        self.write("all.csv", table(ROWS))
        apart = self.build("apart", f'"train.csv", validation_files = "held.jsonl", {NAMES}')
        self.assertEqual(self.losses(apart, "apart_run"), self.losses(self.build("whole", f'"all.csv", {NAMES}, {LAST}'), "whole_run"))

    def test_processes_share_a_table(self):
        compiler, launcher = MPI_LIBRARIES["Open MPI"]
        if not shutil.which(compiler) or not shutil.which(launcher[0]):
            self.skipTest("Open MPI is not installed")
        self.write("own.csv", table(ROWS))
        self.write("shared.tsv", table(ROWS, delimiter="\t"))
        model = self.build("shared", f'"own.csv", {NAMES}, {LAST}', "-D", "train.sum=tree", "-D", "train.accumulate=2")
        self.assertEqual(tfmc("mpi", "--mpicc", compiler, "-o", self.path("libtfm_mpi.so")).returncode, 0)
        result = run(*launcher, "2", model, "train", "--threads", "1", "--out", "of2", "--data", "shared.tsv", cwd=self.folder,
                     environment=MPI_ENVIRONMENT)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.count("trained 6 steps"), 1)
        self.assertEqual(self.logged("of2"), self.losses(model, "of1", "--threads", "1", "--data", "own.csv"))

    def test_messages_name_the_row_and_what_to_write(self):
        self.write("m.csv", table(ROWS))
        model = self.build("told", f'"m.csv", {NAMES}, {LAST}')
        self.ok(model, "train", "--out", "told_run")

        def refused(name, text, what):
            self.write(name, text)
            result = run(model, "eval", "--weights", "told_run", "--data", name, cwd=self.folder)
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assertIn(f"{name}{what}", result.stderr)
        refused("unknown.csv", table([("a\nb", 1), ("Z", 1)]), ":4: the tokenizer has no token for 'Z'")
        refused("open.csv", 'review,stars\n"a\nb",1\n"c\nd,2\n', ":4: the quote that opens a cell here is never closed")
        refused("more.csv", 'review,stars\n"a\nb",1,2\n', ":2: there are 3 columns, but 2 in the first row")
        refused("named.csv", "rewiev,stars\na,1\n", ':1 names no column "review", '
                'but "rewiev": pairs(..., prompt = "rewiev")')
        refused("named.jsonl", '{"review": "a", "label": 1}\n', ':1: there is no text in the field "stars", but in "label": '
                'pairs(..., answer = "label")')
        refused("null.jsonl", '\n{"review": "a", "stars": null}\n', ':2: the field "stars" is no text, but null')

    def test_other_fields_are_other_data(self):
        self.write("two.csv", "review,title,stars\n" + "a good one,good,5\nbad and dull,dull,1\nfine,fine,4\nbad,bad,2\n")
        files = f'"two.csv", {NAMES}, {LAST}'
        model = self.build("fields", files, tokenizer="bytes")
        self.ok(model, "train", "--out", "fields_run", "--steps", "3")
        other = self.build("other", files, "-D", "data.prompt=title", tokenizer="bytes")
        told = "note: the data are not those that the run had until now, or are read in another way"
        self.assertIn(told, self.ok(other, "train", "--resume", "fields_run", "--steps", "4").stderr)
        self.assertNotIn(told, self.ok(other, "train", "--resume", "fields_run", "--steps", "5").stderr)


if __name__ == "__main__":
    main()
