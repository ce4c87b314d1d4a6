"""The words of the report: what was run, and where it differs from the paper and why."""

OPENING = (
    "Every experiment of Yang, Kim and Park, *Online Conformal Prediction with Adversarial Semi-"
    "Bandit Feedback via Regret Minimization* (arXiv 2604.17984), run again with Keyhole, each number"
    " beside the published one. A set holds every label whose score reaches the threshold that the "
    "learner plays; the true label is seen only if it is in the set. MC(T) is the share of rounds "
    "that missed, Ineff(T) the mean size of the sets. This report was made by:"
)
NUMBERS = "Our Tables 1 to 6 are Tables 4 to 9 of the paper, whose first three hold no results."
OPEN = (
    "The paper does not say all that a run needs. Where it is silent we chose, and where a choice was "
    "made to come near its tables, that is said; agreement there is weaker evidence than elsewhere."
)
READINGS = {
    "": "The order o(T)^-1 of the loss's size term is T^(-1/4): with it Tables 5 and 6 come out, with "
    "T^(-1/3), T^(-1/5) or 1 / ln T they do not. Thresholds are evenly spaced on [0, 1], both ends "
    "included.",
    "airfoil prior": "Airfoil's regression begins with weights of 0 and a prior variance of 1,000 for "
    "each, forgets nothing, and has an intercept.",
    "airfoil warm-up": "It learns 50 rows before the first round.",
    "airfoil standardisation": "Features are standardised by mean and standard deviation of all 1,503 "
    "rows, which a forecaster would not know beforehand.",
    "airfoil frozen": "Under covariate shift the regression is frozen at the shift; the paper does not "
    "say whether it goes on learning. It shifts after a third of the rounds.",
    "airfoil bound": "Scores are (u - |residual|) / (u - l), cut off at 0 and 1, with u = 18.5 dB and "
    "l = 0: the paper names both bounds on residuals and gives neither. With l = 0 the interval of "
    "threshold 1 is the prediction alone.",
    "imagenet schedule": "The exponent's schedule is written for 50,000 rounds, 10,000 each. For "
    "longer horizons we stretch it, a fifth of the rounds each; below Table 1 stands what comes of "
    "keeping to 10,000 and staying with the last exponent.",
    "imagenet baselines": "SPS risks 1 / T^2 a round on 1,000 thresholds, MVP has 40 buckets: the "
    "paper gives neither.",
}
FEEDBACK = (
    "What one answer reveals of eleven thresholds when 0.5 was played, under each kind of feedback: "
    "the true label's score is 0.75 where it is a hit and 0.25 where it is a miss."
)
METHODS = (
    "What the same two answers add to the gain of every threshold, on a logarithmic scale, when all "
    "eleven are as likely (α = 0.1, T = 50,000). A hit tells OCP-Unlock and OCP-Unlock+ of all that "
    "cover. After a miss OCP-Unlock gives most to thresholds that are known to miss, which OCP-Unlock+ "
    "mends with pseudo-gains for those below."
)
GAP = (
    "C_gap(T) = (1 / α - 1 / MC(T)) / o(T)^-1: the paper's C_mc(T) contains it, and the paper says "
    "that it decreases as T increases. These are its values by the paper's own miss rates, which "
    "have three digits, and by ours. It falls where MC(T) falls fast enough, also below 0 where "
    "MC(T) is under α; it rises where MC(T) comes up towards α or past it, because o(T)^-1 is "
    "divided out."
)
TIGHTEST = (
    "The paper notes that OCP-Unlock+ has the tightest bound as long as (√K - √C) √(T ln K) > 2 "
    "o(T)^-1 T. The right side grows as T^(3/4) and the left as T^(1/2), so that it ends with a "
    "horizon of ((√K - √C) √(ln K) / 2)^4 rounds, and its 2 o(T)^-1 stands for the constant e, which "
    "is larger (see *What is guaranteed*). The sides with C = 1, the least that it can be, and the "
    "three bounds on the regret with it:"
)
LITERAL = (
    "The paper writes its shift for 50,000 rounds: a new exponent after every 10,000. Above, for "
    "longer horizons, it is stretched to fifths. Here it keeps to 10,000 rounds, and the last exponent "
    "stays."
)
AGREEMENT = (
    "How many cells of each table are as near to the paper as we ask of ourselves, on the mean over "
    "runs. Set sizes are compared as a share of the paper's. What cannot be compared is left out: "
    "the set sizes of Airfoil (see Table 2), and all but the miss rates of a classifier that is not "
    "the paper's. *Cells below* counts those whose mean is lower than the paper's number; *in "
    "standard errors* is how many standard errors of our mean they differ by, from the lowest to the "
    "highest. Where all cells lie on one side by many of them, that is no chance: we ran on "
    "something else than the paper did. Where the scenario itself was fitted, nearness is partly by "
    "construction: the generated outputs to Tables 1 and 5 at T = 50,000, Airfoil's covariate shift "
    "to Tables 2 and 6, and its residual bound, which the paper does not state, to both. The "
    "ImageNet cells of Table 3 and of the longer horizons, and the real classifier, were fitted to "
    "nothing."
)
MEASUREMENTS = (
    "UCI Airfoil Self-Noise (Brooks, Pope and Marcolini, NASA RP-1218, 1989), 1,503 rows drawn with "
    "replacement, predicted by recursive least squares before each is learnt."
)
GENERATOR = (
    "class probabilities of 5,000 images made up by a generator, so that no file is needed. Its "
    "constants were fitted to ResNet-18's accuracy and to the paper's Tables 1 and 5 at T = 50,000; "
    "they have seen neither Table 3 nor the longer horizons."
)
FILE = "a classifier's outputs on real images, from a file."

_BASELINES = (
    "OCP-Unlock+ beside SPS, which is made for i.i.d. scenarios, and MVP, which the paper calls a full-"
    "feedback oracle. The paper prints no numbers for these curves."
)
ABOUT = {
    "exp1": _BASELINES,
    "exp2": _BASELINES,
    "exp4": "The three variants: hit or miss alone (OCP-Bandit), shared answers (OCP-Unlock), and "
    "every threshold in every round (OCP-Unlock+).",
    "exp5": "How the miss rate of OCP-Unlock+ spreads over runs, by target.",
}
_ORACLE = (
    "MVP as published needs nothing but hit or miss, so that it is no oracle: it may be used wherever "
    "the others may, and its sets belong beside theirs. SPS never lowers a threshold, which is why it "
    "does not recover from a shift that calls for lower ones."
)
_RISING = (
    " The paper's text has MC(t) of SPS fall in the non-i.i.d. setting; here it rises and its coverage "
    "falls, which is what a threshold that never comes down must lead to."
)
FINALS = {"exp1": _ORACLE + _RISING, "exp2": _ORACLE}

ORDER = (
    "The paper's order is MC(OCP-Unlock+) < MC(OCP-Unlock) <= MC(OCP-Bandit). Below are the "
    "differences of MC(T), run by run on the same rounds, with their standard errors; they are bold "
    "or red where the gap is not larger than its standard error."
)
PARAMETERS = (
    "The learners' parameters, once each (arms, α and horizon vary with the table). The paper "
    "gives none for SPS and MVP: SPS risks 1 / T^2 a round and knows 1,000 thresholds, MVP has the 40"
    " buckets of its authors' experiments and one group."
)

AGAIN = [
    "`pip install 'keyhole-conformal[paper]'`, then the command above; `keyhole paper --help` lists "
    "its options.",
    "Finished runs are kept in the folder of `--out`: after Ctrl-C the same command goes on, and its "
    "files are those of an unbroken run. More `--runs` add to those that are there.",
    "`--only exp3`, `--only exp1/imagenet/iid` or `--only table2 table6` runs a part.",
    "`--engine dask --address tcp://HOST:8786` spreads the runs over a Dask cluster (`pip install "
    "'keyhole-conformal[dask]'`); the numbers stay the same, bit "
    "for bit.",
    "`keyhole imagenet-file FOLDER --out resnet18.npz` writes the outputs of torchvision's ResNet-18 "
    "on the ImageNet validation images, where you have them; with `--imagenet resnet18.npz --model "
    "ResNet-18` the report has a column for them.",
    "Beside this report are `tables.json` in the structure of the published tables, their standard "
    "errors in `standard_errors.json`, all settings in `settings.json`, what they ran on in "
    "`sources.json`, figures as PNG and SVG, and in `runs/` the raw series: one file a setting, one "
    "row a run.",
]

SHIFT = (
    "Covariate shift after a third of the rounds: the paper does not say how rows are then drawn. We "
    "draw them with weights exp(-1.3 z1 + z5), where z1 is the standardised logarithm of the frequency "
    "and z5 that of the displacement thickness, and stop learning the regression. The 1.3 was fitted "
    "to Tables 2 and 6: with 1 in its place the miss rates at α 0.3 and 0.4 stay too low."
)
UNIT = (
    "Interval lengths are in dB. The paper states neither its unit nor its bound on residuals (we use"
    " 18.5 dB, under which its miss rates come out). The ratio of our lengths to the paper's is shown: "
    "it runs from {low:.2f} to {high:.2f} over these cells, so that no one constant turns the one into "
    "the other, and the lengths are not reproduced."
)
MODEL = (
    "The paper used ResNet-18 on the 50,000 validation images. The first column ran on generated "
    "outputs, so that agreement there shows that the learners are right given like scores; a file's "
    "column shows a real classifier, which is another one than the paper's unless the column says "
    "ResNet-18."
)
NEGATIVE = (
    "C_mc(T) = a(0) - mean a_t + MC(T) - α, with the a_t of the paper's formula, which are "
    "negative although the paper says that they lie in [0, 1]; o(T)^-1 is T^(-1/4), the reading under"
    " which the table comes out."
)
