//===- TableTest.cpp - tables of texts ----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/table.h"
#include "runtime/data/texts.h"
#include "runtime/support/error.h"
#include "tests/unit/runtime/TemporaryFolder.h"

#include <gtest/gtest.h>

namespace tfm {
namespace {

using test::messageOf;
using test::TemporaryFolder;
using Row = std::vector<std::string>;

/// All rows of a table of commas, each behind the line in which it begins.
std::vector<Row> rowsOf(std::string_view text, char separator = ',') {
  const std::string path = "t.csv";
  TableReader table(path, text, separator);
  std::vector<Row> rows;
  for (Row row = table.next(); !row.empty(); row = table.next()) {
    row.insert(row.begin(), std::to_string(table.line()));
    rows.push_back(std::move(row));
  }
  return rows;
}

// RFC 4180, section 2, and what files at large have besides.
TEST(Table, HasTheCellsOfItsRows) {
  using Rows = std::vector<Row>;
  EXPECT_EQ(rowsOf(""), Rows());
  EXPECT_EQ(rowsOf("a,b\r\nc,d"), (Rows{{"1", "a", "b"}, {"2", "c", "d"}}));
  EXPECT_EQ(rowsOf("a,b\nc,d\r"), (Rows{{"1", "a", "b"}, {"2", "c", "d"}}));
  EXPECT_EQ(rowsOf("\"a\",\"b \"\"c\"\"\"\n"), (Rows{{"1", "a", "b \"c\""}}));
  EXPECT_EQ(rowsOf("\"a,\r\nb\n\",c\n\"\"\"\",e\n"),
            (Rows{{"1", "a,\r\nb\n", "c"}, {"4", "\"", "e"}}));
  // Spaces are of the text, and a quote within a cell is one.
  EXPECT_EQ(rowsOf(" a ,b\"c\" \n"), (Rows{{"1", " a ", "b\"c\" "}}));
  EXPECT_EQ(rowsOf(",\n\"\",\n\n\r\n,\"\"\n"),
            (Rows{{"1", "", ""}, {"2", "", ""}, {"5", "", ""}}));
  EXPECT_EQ(rowsOf("\"\"\n"), (Rows{{"1", ""}}));
  EXPECT_EQ(rowsOf("a,b\tc\n\"d\te\"\tf\n", '\t'),
            (Rows{{"1", "a,b", "c"}, {"2", "d\te", "f"}}));
}

TEST(Table, NamesTheLineOfAFault) {
  auto fault = [](std::string_view text, char separator = ',') {
    return messageOf<InputError>([&] { rowsOf(text, separator); });
  };
  // The line of the quote, not that in which the file ends.
  const std::string advice =
      ": a text that begins with a quote stands between quotes, with each of "
      "its own twice, as in \"\"\"Yes\"\", she said\"";
  EXPECT_EQ(fault("a,\"b\nc\"\nd,\"e\nf\n\n"),
            "t.csv:3: the quote that opens a cell here is never closed" +
                advice);
  EXPECT_EQ(fault("a\n\""),
            "t.csv:2: the quote that opens a cell here is never closed" +
                advice);
  EXPECT_EQ(fault("a\n\"b\nc\"d\n"),
            "t.csv:2: a quote opens a cell here, and behind the one that "
            "closes it, in line 3, stands something else than a comma or the "
            "end of the line" +
                advice);
  EXPECT_EQ(fault("\"a\" \tb\n", '\t'),
            "t.csv:1: a quote opens a cell here, and behind the one that "
            "closes it stands something else than a tab or the end of the "
            "line" +
                advice);
  // What is advised is read.
  EXPECT_EQ(rowsOf("\"\"\"Yes\"\", she said\",b\n"),
            (std::vector<Row>{{"1", "\"Yes\", she said", "b"}}));
  for (const char *text : {"a\nb,c\rd,e\r", "a\nb,c\r\rd,e\r\n"})
    EXPECT_EQ(fault(text),
              "t.csv:2: a line ends in CR alone: save the file with LF or CR "
              "LF at the ends of its lines");
}

TEST(Table, IsWhatAFileOfItsEndingHas) {
  EXPECT_EQ(tableSeparator("a.csv"), ',');
  EXPECT_EQ(tableSeparator("a/B.CSV"), ',');
  EXPECT_EQ(tableSeparator("a.Tsv"), '\t');
  for (const char *other : {"", "csv", "a.csv.txt", "a.csv/b", "acsv", "a.ssv"})
    EXPECT_EQ(tableSeparator(other), std::nullopt) << other;
}

/// The examples of a file, or what is wrong with it, with the file as `F`.
class Examples {
public:
  Examples(const char *kind, const char *name) : name(name) {
    data.kind = kind;
    data.field = "text";
    data.prompt = "review";
    data.answer = "mood";
  }

  /// Each with its line, and `|` where its answer begins.
  std::string of(const std::string &text) {
    data.files = {folder.write(name, text)};
    std::string all;
    std::string message = messageOf<InputError>([&] {
      for (Example &example : readExamples(data)) {
        if (example.prompt != std::string::npos)
          example.text.insert(example.prompt, "|");
        std::string place = example.place(data);
        all += place.substr(data.files[0].size()) + " " + example.text + "\n";
      }
    });
    size_t at = message.find(data.files[0]);
    return at == std::string::npos
               ? all
               : message.replace(at, data.files[0].size(), "F");
  }

  DataSpec data;

private:
  TemporaryFolder folder;
  std::string name;
};

TEST(Table, HasExamples) {
  Examples pairs("pairs", "a.csv");
  EXPECT_EQ(pairs.of("\xEF\xBB\xBFid,mood,review\r\n"
                     "1,good,\"fine,\nvery\"\r\n\r\n2,bad,dull\r\n"),
            ":2 fine,\nvery|good\n:5 dull|bad\n");
  // The same column may be both.
  pairs.data.answer = "review";
  EXPECT_EQ(pairs.of("id,review\n1,a\n"), ":2 a|a\n");
  Examples tabs("pairs", "a.TSV");
  EXPECT_EQ(tabs.of("review\tmood\na, b\tc\n"), ":2 a, b|c\n");
  Examples column("json", "a.csv");
  EXPECT_EQ(column.of("id,text\n1,\"a\nb\"\n2,c\n"), ":2 a\nb\n:4 c\n");
  // Lines are lines, and a file of another name has none of this.
  EXPECT_EQ(Examples("lines", "a.csv").of("a,b\n\"c\nd\"\n"),
            ":1 a,b\n:2 \"c\n:3 d\"\n");
  Examples plain("pairs", "a.txt");
  plain.data.prompt = "prompt";
  plain.data.answer = "answer";
  EXPECT_EQ(plain.of("a\t\"b\n"), ":1 a|\"b\n");
}

TEST(Table, SaysWhichColumnsThereAre) {
  Examples pairs("pairs", "a.csv");
  const std::string where = "F:1 names no column ";
  EXPECT_EQ(pairs.of("id,reveiw,mood\n1,a,b\n"),
            where + "\"review\", but \"id\" or \"reveiw\": pairs(..., "
                    "prompt = \"reveiw\")");
  EXPECT_EQ(pairs.of("review,label\na,b\n"),
            where + "\"mood\", but \"label\": pairs(..., answer = "
                    "\"label\")");
  EXPECT_EQ(pairs.of("id,body,label\n1,a,b\n"),
            where + "\"review\", but \"id\" or \"body\" or \"label\": "
                    "pairs(..., prompt = NAME)");
  EXPECT_EQ(Examples("json", "a.csv").of("id,body\n1,a\n"),
            where + "\"text\", but \"id\" or \"body\": json(..., field = "
                    "NAME)");
  // A file without such a line has texts there.
  EXPECT_EQ(pairs.of(std::string(61, 'x') + ",\"a\nb\"\n"),
            where + "\"review\", but \"" + std::string(57, 'x') +
                "...\" or \"a\\nb\": pairs(..., prompt = NAME)");
  EXPECT_EQ(pairs.of("review;mood\na;b\n"),
            "F:1 names one column, \"review;mood\": between columns stands a "
            "comma in a .csv file, a tab in a .tsv file");
  EXPECT_EQ(pairs.of("mood,review,mood\na,b,c\n"),
            "F:1 names two columns \"mood\"");
}

TEST(Table, HasAsManyColumnsInEachRow) {
  Examples pairs("pairs", "a.csv");
  EXPECT_EQ(pairs.of("review,mood\n\"a\nb\",c\nd,e,f\n"),
            "F:4: there are 3 columns, but 2 in the first row: a text with a "
            "comma has to stand in quotes");
  EXPECT_EQ(
      pairs.of("review,mood\na\nb,c\n"),
      "F:2: there is 1 column, but 2 in the first row: cells are missing, "
      "or a text with a line break has to stand in quotes");
  EXPECT_EQ(Examples("pairs", "a.tsv").of("review\tmood\na\tb\tc\n"),
            "F:2: there are 3 columns, but 2 in the first row: a text with a "
            "tab has to stand in quotes");
  EXPECT_EQ(pairs.of("\n\n"), "the data file F is empty");
  EXPECT_EQ(pairs.of("review,mood\n\n"),
            "the data file F has no row behind the one that names its columns");
  EXPECT_EQ(pairs.of("review,mood\n,\n \t,\"\n\"\n"),
            "the data file F has no text: all of its 2 texts are blank");
}

} // namespace
} // namespace tfm
