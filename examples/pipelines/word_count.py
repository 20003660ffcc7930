"""Word count: lines of topic `lines` in, how often each word was said in topic `words` out.

echo "to be or not to be" | tidelog produce lines
tidelog pipeline run examples/pipelines/word_count.py
tidelog consume words --from beginning
"""

from tidelog.pipeline import Pipeline

pipeline = Pipeline("word-count")


def words(line):
    return [word.strip(".,;:!?").lower() for word in line.value.decode().split()]


(
    pipeline.stream("lines")
    .flat_map(words, schema="word string")
    .filter("word <> ''")
    .key_by("word")
    .count()
    .to("words")
)
