"""A learner at work on sets or intervals, in memory."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Never, cast, overload

from keyhole.checks import is_list
from keyhole.feedback import LEAST_CHANCE, Answer, Feedback
from keyhole.learners import Distribution, Excess, Learner
from keyhole.numeric import Array
from keyhole.predictor import batch, play
from keyhole.predictor.batch import LabelSets
from keyhole.predictor.context import NOTHING_KNOWN, Features, Groups, read_context, read_contexts
from keyhole.predictor.play import Plan, Shown
from keyhole.predictor.report import bound_excess, bound_regret, show, warn_of_answers
from keyhole.predictor.rounds import (
    MISSING,
    R,
    check_judged,
    judge_label,
    propose,
    read_answer,
    read_judged,
    settle,
)
from keyhole.predictor.session import Session
from keyhole.predictor.setup import MOST_OPEN, make_setup, refuse_unknown
from keyhole.scores import Case, Score

if TYPE_CHECKING:
    from keyhole.predictor.levels import LevelPredictor

_NO_GROUPS = ()


class Predictor(Session[R]):
    """Predicts a set for every round and learns from the answer, whenever it comes.

    Parameters
    ----------
    learner
        The name of a rule in ``keyhole.LEARNERS``, or a learner; by default the informed tracker, with
        features or groups the contextual tracker.
    alpha
        The share of sets that may miss the truth, such as 0.1; omit it if ``learner`` is a learner.
        Several, such as ``[0.05, 0.1, 0.2]``, make a ``LevelPredictor`` of nested sets.
    horizon
        As for ``keyhole.make``: the number of rounds to come, for rules that are tuned to it.
    arms
        As for ``keyhole.make``: the number of thresholds on the grid of a rule that has one.
    features
        The names of the features of every case, or how many there are.
    groups
        The names of groups of rounds, or how many there are; each is to miss at the target rate. They
        may overlap.
    score
        How to read a model's output; by default label scores in [0, 1].
    feedback
        What answers reveal: "bandit", whether the set missed; "semi-bandit", also the true label if
        the set contains it; "full", always the true label.
    seed
        Fixes every random draw; without a seed they are unpredictable.
    open_limit
        How many rounds may be open; beyond that the oldest is dropped.
    least_chance
        The least ``chance`` that an answer may come with: none counts for more than 1 / this many.
    history
        How many answered rounds to remember for ``history()`` and ``plot()``. They are pickled with
        the predictor, but not saved to its file.
    amend_limit
        How many answered rounds to keep so that ``amend`` can correct them; pickled and saved as
        ``history`` is.
    watch
        Whether to monitor the miss rate for changes, which costs about 3 us a round and 281 bytes.

    Examples
    --------
    >>> predictor = Predictor(alpha=0.1)
    >>> prediction = predictor.predict({"cat": 0.71, "lynx": 0.22, "dog": 0.04})
    >>> predictor.learn(prediction, label="cat")
    >>> predictor
    <Predictor informed-tracker, alpha 0.1: 1 rounds, miss rate 0.0000, mean size 2>
    """

    _HOLDER = "Predictor"

    @overload
    def __new__(
        cls, *args: object, alpha: float | None = None, score: Score[R] | None = None, **options: Any
    ) -> "Predictor[R]": ...
    @overload
    def __new__(  # type: ignore[misc]
        cls, *args: object, alpha: Sequence[float], score: Score[R] | None = None, **options: Any
    ) -> "LevelPredictor[R]": ...
    def __new__(cls, *args: Any, alpha: Any = None, **options: Any) -> Any:
        """Make a predictor of this class, or with several alphas one of levels."""
        if isinstance(alpha, str) or not is_list(alpha):
            return super().__new__(cls)
        from keyhole.predictor.levels import LevelPredictor

        return LevelPredictor(*args, alpha=alpha, **options)

    def __init__(
        self,
        learner: str | Learner | None = None,
        *,
        alpha: float | Sequence[float] | None = None,
        horizon: int | None = None,
        arms: int | None = None,
        features: int | Iterable[str] | None = None,
        groups: int | Iterable[str] | None = None,
        score: Score[R] | None = None,
        feedback: str = Feedback.SEMI_BANDIT,
        seed: int | None = None,
        open_limit: int = MOST_OPEN,
        least_chance: float = LEAST_CHANCE,
        history: int = 0,
        amend_limit: int = 0,
        watch: bool = False,
        **unknown: Never,
    ) -> None:
        if unknown:
            refuse_unknown(learner, unknown)
        setup = make_setup(
            learner,
            alpha=cast("float | None", alpha),
            horizon=horizon,
            arms=arms,
            features=features,
            groups=groups,
            score=score,
            feedback=feedback,
            seed=seed,
            open_limit=open_limit,
            least_chance=least_chance,
        )
        super().__init__(setup, history=history, watch=watch, amend_limit=amend_limit)

    def __repr__(self) -> str:
        figures = f", miss rate {self.miss_rate:.4f}, mean size {self.mean_size:.4g}"
        return self._describe(f"{self.rounds:,} rounds", figures if self.rounds else "")

    def _repr_html_(self) -> str:
        rows = {
            "learner": self.learner.name,
            "target miss rate": f"{self.alpha:g}",
            "rounds": f"{self.rounds:,}",
            "miss rate": f"{self.miss_rate:.4f}",
            "mean size": f"{self.mean_size:.4g}",
        }
        return show(self, rows, rate=self.miss_rate, called="miss rate")

    @property
    def unreachable(self) -> int:
        """How many true values no threshold would have covered."""
        return self._progress.tally.unreachable

    @property
    def miss_rate(self) -> float:
        """The share of answered rounds that missed; NaN before the first answer."""
        with self._lock:
            return self._progress.tally.miss_rate

    @property
    def mean_size(self) -> float:
        """The mean size of the answered sets or intervals; NaN before the first answer."""
        with self._lock:
            return self._progress.tally.mean_size

    @property
    def median_size(self) -> float:
        """A running median of the bounded sizes that were answered; NaN before the first of them."""
        with self._lock:
            return self._progress.tally.median_size

    @property
    def unbounded_share(self) -> float:
        """The share of answered intervals that were unbounded; NaN before the first answer."""
        with self._lock:
            return self._progress.tally.unbounded_share

    @property
    def distribution(self) -> Distribution:
        """The thresholds that may be played next and how likely each is."""
        with self._lock:
            return self._setup.learner.distribution(self._progress.state)

    def predict(
        self, output: object, *, features: Features | None = None, groups: Groups = _NO_GROUPS
    ) -> R:
        """Return the set or interval to show; it stays open until it is answered.

        Parameters
        ----------
        output
            The model's output for the case.
        features
            By name or as an array; a feature that is omitted, NaN or None is missing.
        groups
            Those that the case belongs to, by name or number.

        Examples
        --------
        >>> predictor = Predictor(alpha=0.1, features=["hour", "load"], groups=["weekend"])
        >>> shown = predictor.predict([0.7, 0.3], features={"hour": 7}, groups=["weekend"])
        >>> predictor.learn(shown, label=1)
        >>> predictor.groups["weekend"].misses
        1.0
        """
        setup, progress = self._setup, self._progress
        learner, found = setup.learner, progress.scale
        score: Any = setup.score
        case: Any = (score if found is None else found.fit(score)).read(output)
        context = NOTHING_KNOWN
        if learner.context or features is not None or groups is not _NO_GROUPS:
            context = read_context(setup, features, groups)
        lock = self._lock
        lock.acquire()  # ``with`` would take twice as long.
        try:
            return self._open_round(case, context)
        finally:
            lock.release()

    def _open_round(self, case: Case[R], context: Array) -> R:
        """Return what is shown of a case, its round opened; the lock is held."""
        setup, progress, draws, waiting = self._setup, self._progress, self._draws, self._waiting
        number = progress.tally.predicted
        draw = 0.5 if draws is None else draws.of(number)
        opened = waiting[number] = propose(setup.learner, progress, case, draw, context)
        if len(waiting) > setup.open_limit:
            self._drop_oldest()
        return opened.prediction

    def predict_batch(
        self,
        outputs: Iterable[object],
        *,
        features: Mapping[str, Sequence[object]] | Sequence[Features] | Array | None = None,
        groups: Sequence[Groups] | None = None,
    ) -> Sequence[R]:
        """Return a set or interval for each output, as if each had been predicted alone.

        ``features`` are a row for each output, or a column for each name; ``groups`` a list for each.
        For a plain table of scores, a row for each round, the sets are made when they are used.

        Examples
        --------
        >>> predictor = Predictor(alpha=0.1)
        >>> [len(shown) for shown in predictor.predict_batch([[0.7, 0.3], [0.6, 0.5]])]
        [1, 2]
        """
        setup, progress = self._setup, self._progress
        batch.check_rows(outputs)
        if features is None and groups is None and batch.fits(setup.learner, setup.score, outputs):
            with self._lock:
                table: Any = outputs
                made = batch.propose_batch(setup.learner, progress, cast("Any", setup.score), table)
                progress.tally.predicted += len(made)
                self._waiting.update(dict.fromkeys(made.numbers, made))
                while len(self._waiting) > setup.open_limit:
                    self._drop_oldest()
            return cast("Sequence[R]", made)
        # All, before any is opened.
        cases = [progress.read(setup.score, output) for output in batch.list_outputs(outputs)]
        known = read_contexts(setup, len(cases), features, groups)
        with self._lock:
            return [self._open_round(case, own) for case, own in zip(cases, known, strict=True)]

    def learn(
        self,
        prediction: R | int,
        answer: Answer | None = None,
        *,
        label: object = MISSING,
        score: float | None = None,
        loss: float | None = None,
        chance: float = 1.0,
        wrong: float = 0.0,
        judged: Answer | None = None,
    ) -> None:
        """Answer a round.

        Parameters
        ----------
        prediction
            The set or interval, or its number.
        answer
            ``keyhole.HIT`` or ``keyhole.MISS``; or instead of it:
        label
            The true label, or the true value. A label that was not a candidate is a miss that no
            threshold would have prevented.
        score
            The true label's score.
        loss
            A graded answer in [0, 1]: 0 is a hit, 1 a miss.
        chance
            The known probability that an answer comes, if some never do: the answer then counts for
            1 / ``chance`` rounds. At least ``least_chance``.
        wrong
            The known probability that the answer is the opposite of the truth. The bound is then
            certain only for the answers as reported; for the truth it holds on average, and with
            probability 1 - delta as ``bound(delta=...)`` says.
        judged
            The verdict, ``keyhole.HIT`` or ``keyhole.MISS``, of a judge with unknown error rates: a
            person, or a language model. Give it alone, or beside the truth in rounds picked at
            random to be checked; from the checks the judge's bias is estimated and corrected.

        Raises
        ------
        AnsweredError, ExpiredError, UnknownRoundError
            If the round is not open. Nothing changes.
        FeedbackError, LabelError, ScoreError
            If the answer is invalid, or reveals too little for the learner. The round stays open.
        """
        setup, progress, lock = self._setup, self._progress, self._lock
        learner = setup.learner
        lock.acquire()  # ``with`` would take twice as long.
        try:
            asked = self._find(prediction)
            if (
                label is not MISSING
                and answer is None
                and score is None
                and loss is None
                and judged is None
                and chance == 1.0
                and wrong == 0.0
            ):
                outcome = judge_label(asked, label)
            elif judged is None:
                # By name they would take twice as long.
                outcome = read_answer(
                    learner, asked, answer, label, score, loss, chance, wrong, setup.seed,
                    setup.least_chance,
                )  # fmt: skip
            else:
                check_judged(wrong)
                outcome = read_judged(
                    learner, asked, judged, answer, label=label, score=score, loss=loss, chance=chance,
                    bias=progress.tally.bias, seed=setup.seed, least_chance=setup.least_chance,
                )  # fmt: skip
            settle(setup, progress, asked, outcome)
            del self._waiting[asked.prediction.id]
            if self._keeps:
                self._keep(asked, outcome)
            answered = progress.tally.answered
        finally:
            lock.release()
        if learner.horizon is not None or outcome.unreachable:
            warn_of_answers(setup, answered - 1, answered, unreachable=outcome.unreachable)

    def amend(
        self,
        prediction: R | int,
        answer: Answer | None = None,
        *,
        label: object = MISSING,
        score: float | None = None,
        loss: float | None = None,
    ) -> None:
        """Correct the answer of a round that turned out to be wrong.

        Misses, excess and groups become those of the right answer, and the learner moves by the
        difference; an answer of a known chance keeps it. What the watch has seen stays. ``bound`` is
        wider by what was amended. The round must be one of the last ``amend_limit`` answered ones.

        Raises
        ------
        AnsweredError
            If the round has no answer, or is kept no more. Nothing changes.
        FeedbackError
            If the learner cannot take an answer back. Nothing changes.

        Examples
        --------
        >>> predictor = Predictor(alpha=0.1, amend_limit=1_000)
        >>> shown = predictor.predict({"cat": 0.7, "dog": 0.3})
        >>> predictor.learn(shown, label="cat")
        >>> predictor.amend(shown, label="dog")
        >>> predictor.miss_rate
        1.0
        """
        self._amend(
            prediction,
            lambda answered: read_answer(
                self._setup.learner, answered, answer, label=label, score=score, loss=loss
            ),
        )

    def _play(self, plans: Sequence[Plan]) -> Shown | None:
        """Play many rounds of bands, predicted and answered in the plan's order, without the overhead.

        Return what each was shown; None, and nothing is played, if they must be played one by one.
        """
        (plan,), setup, progress = plans, self._setup, self._progress
        with self._lock:
            room = setup.open_limit - len(self._waiting)
            if not play.fits(setup, progress) or self._history is not None or len(plan.numbers) > room:
                return None
            before = {number: self._find(number) for number in plan.numbers if number >= 0}
            waiting, keeps = dict(before), self._answered.limit > 0
            shown, answered = play.play_bands(setup.learner, progress, waiting, plan, keeps=keeps)
            for number in before:
                del self._waiting[number]
            self._waiting.update(waiting)
            for opened, outcome in answered:
                self._answered.keep(opened, outcome)
            return shown

    def learn_batch(self, predictions: Sequence[R | int], answers: Sequence[object]) -> None:
        """Answer many rounds in order, each with ``HIT``, ``MISS`` or its true label; all or none.

        Examples
        --------
        >>> predictor = Predictor(alpha=0.1)
        >>> predictor.learn_batch(predictor.predict_batch([[0.7, 0.3], [0.6, 0.5]]), [0, 1])
        >>> predictor.rounds
        2
        """
        batch.check_answers(predictions, answers)
        setup, tally = self._setup, self._progress.tally
        with self._lock:
            before, unreachable = tally.answered, tally.unreachable
            self._learn_batch(predictions, answers)
            after, is_unreachable = tally.answered, tally.unreachable > unreachable
        warn_of_answers(setup, before, after, unreachable=is_unreachable)

    def _learn_batch(self, predictions: Sequence[R | int], answers: Sequence[object]) -> None:
        """Answer many rounds, without their overhead where they are a batch; the lock is held."""
        learner, progress = self._setup.learner, self._progress
        if (
            self._history is None
            and not self._answered.limit
            and progress.tally.usual == 1.0
            and isinstance(predictions, LabelSets)
            and list(map(self._waiting.get, predictions.numbers)).count(predictions) == len(predictions)
            and (places := batch.find_places(predictions, answers)) is not None
        ):
            batch.settle_batch(learner, progress, predictions, places)
            for number in predictions.numbers:
                del self._waiting[number]
            return
        waiting = self._find_all(predictions)
        outcomes = batch.read_answers(learner, waiting, answers)
        for one, outcome in zip(waiting, outcomes, strict=True):
            settle(self._setup, progress, one, outcome)
            self._close(one, outcome)

    def plot(self, *, window: int | None = None, axes: object = None) -> Any:
        """Draw the miss rate of the rounds that were kept, each group's, and sizes; return both axes.

        ``window`` is the number of rounds in the moving rate, by default a tenth of them; ``axes`` are
        two of matplotlib's to draw into.
        """
        from keyhole.predictor.plot import plot_rounds

        kept = self.history()
        return plot_rounds(
            kept["miss"], kept["size"], alpha=self.alpha, sized="size", window=window, axes=axes,
            groups={str(name): kept[f"group {name}"] > 0.0 for name in self.groups},
        )  # fmt: skip

    def calibrate(
        self,
        outputs: Iterable[object],
        labels: Iterable[object],
        *,
        features: Mapping[str, Sequence[object]] | Sequence[Features] | Array | None = None,
        groups: Sequence[Groups] | None = None,
    ) -> None:
        """Learn from labelled history before the first round; the counts of rounds stay at zero.

        The learner plays the history as rounds answered at once. The bound on its misses covers
        history and rounds together, so ``bound`` moves by the excess of the history. Features and
        groups are given as for ``predict_batch``.

        Examples
        --------
        >>> predictor = Predictor(alpha=0.1)
        >>> predictor.calibrate([{"cat": 0.9, "dog": 0.1}] * 50, ["cat"] * 50)
        >>> predictor.rounds, bool(predictor.distribution.thresholds[0] > 0.5)
        (0, True)
        """
        with self._lock:
            history, truths = batch.list_outputs(outputs), batch.list_labels(labels)
            known = read_contexts(self._setup, len(history), features, groups)
            self._progress.calibrate(self._setup, history, truths, contexts=known)

    def bound(self, *, rounds: int | None = None, delta: float | None = None) -> Excess:
        """Return the bounds on sum(miss - alpha) after this many rounds, on any sequence.

        By default after the rounds up to now. It allows for how answers came until now: how late, of
        what chance, how often wrong, and misses that no set prevented. It holds if they come no other
        way from now on (``keyhole.bounds.excess`` has it for any); ``TheoremError`` where no theorem
        does.

        With ``chance=`` or ``wrong=`` the sum is that of the answers as they were counted. With
        ``delta`` it is that of the truth, of all rounds, those without an answer too; it then holds
        after any number of rounds at once, except with probability ``delta``, if no round had a chance
        below ``least_chance``: set that to the chance of your answers, and ``skip`` what gets none.
        """
        return bound_excess(self._setup, self._progress, rounds=rounds, delta=delta)

    def regret_bound(self) -> float:
        """Return the theorem's bound on the regret, or raise ``TheoremError`` where none holds.

        It is for the horizon or, without one, for the rounds so far. It holds if every answer comes
        before the next prediction.
        """
        return bound_regret(self._setup, self._progress)
