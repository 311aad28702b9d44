"""The names that other packages may build on, each with what it is for."""
# isort: off

# Scoring methods: settings in the constructor, data in `fit`, a scorer out
from .scoring.contract import Method as Method  # fitted once, then scores each text alone
from .scoring.contract import CorpusMethod as CorpusMethod  # reads the whole corpus in one worker
from .scoring.contract import LabelMethod as LabelMethod  # scores a row by its label
from .scoring.contract import Scorer as Scorer  # a fitted method: arrays, numbers and names
from .scoring.contract import Effect as Effect  # of one n-gram on a text's score
from .core.settings import setting as setting  # a field of own settings with limits
from .scoring.contract import require_fit as require_fit  # check a scorer's arrays
from .scoring.checks import check_method as check_method  # what every method keeps to

# Formats of corpora, training objectives, kinds of tasks
from .text.contract import Format as Format  # blocks of whole rows, and their rows
from .text.formats.csv import Csv as Csv  # values with a delimiter, to derive others of
from .text.checks import check_format as check_format  # what every format keeps to
from .training.contract import Objective as Objective  # rows, their predicted tokens, the loss
from .training.objectives.causal import Causal as Causal  # the next token, to derive others of
from .training.checks import check_objective as check_objective  # what every objective keeps to
from .evaluation.learned import LearnedTaskType as LearnedTaskType  # labels, loss, answers, metrics
from .evaluation.answered import AnsweredTaskType as AnsweredTaskType  # by a model as it is
from .evaluation.tasks.classification import Classification as Classification  # one label a text
from .evaluation.checks import check_task_type as check_task_type  # what every kind keeps to

# Adapters: new weights in a frozen model, trained in place of its own
from .training.contract import Adapter as Adapter  # inserted, its weights by name, its files

# Commands: a function that prints the result of the public function of its name
from .cli.options import command as command  # makes one; an entry point names its module
from .cli.show import say as say  # a line beside the result
from .cli.show import say_result as say_result  # a sentence of the result
from .cli.show import table as table  # whose figures are never folded
from .core.keywords import dry_run as dry_run  # a function is the dry run of a public one
from .core.keywords import with_keywords as with_keywords  # a public function lists its keywords
from .core.typed_options import MachineOptions as MachineOptions  # keywords in place of `machine`
from .text.context import machine_of as machine_of  # the machine of a call

# Finished runs and inputs: `corpusfit.open`, and what `Selection` has
from .selection.samples import random_texts as random_texts  # of inputs, as a method is fitted on
from .text.pairs import read_pairs as read_pairs  # every pair of an aligned input

# Data
from .core.types import Paired as Paired  # units as texts and as embeddings
from .core.types import Texts as Texts  # texts as one Arrow array
from .core.types import as_texts as as_texts  # any strings as `Texts`

# Errors: messages for the user, which end with a cure
from .core.errors import InputError as InputError  # of a text or a file
from .core.errors import MissingDependencyError as MissingDependencyError  # of an extra
from .core.errors import ModelError as ModelError  # of a model
from .core.errors import UsageError as UsageError  # of settings
from .core.errors import bad_setting as bad_setting  # one for the value of a setting

# Embeddings: a row has the same bits in any batch
from .scoring.blocks import blockwise as blockwise  # score block by block, in bounded memory
from .scoring.blocks import plain_rows as plain_rows  # as contiguous float32
from .kernels.vectors import lengths as lengths  # of rows
from .kernels.vectors import products as products  # inner products of all pairs of rows
from .kernels.vectors import squared_distances as squared_distances  # of all pairs of rows
from .selection.embedding import open_encoder as open_encoder  # that a plan names, of any kind

# Tasks
from .evaluation.reading import read_task as read_task  # a labeled task, as `evaluate` reads it

# Significance: what holds for another test set and another seed
from .evaluation.significance import bootstrap_scores as bootstrap_scores  # of resampled texts
from .evaluation.significance import compare as compare  # two models on the same examples
from .evaluation.significance import holm as holm  # p-values of several comparisons

# Words
from .scoring.tokens import ngrams as ngrams  # the n-grams of texts as 64-bit identities
from .scoring.tokens import written_tokens as written_tokens  # one text's tokens, with spellings
from .kernels.grams import count_each as count_each  # the different n-grams of every text
from .kernels.grams import table_of as table_of  # a hash table from n-grams to indices
from .kernels.grams import find_each as find_each  # the indices of n-grams in a table
from .kernels.word_form import word_form as word_form  # in which words are compared
from .scoring.arpa import read_arpa as read_arpa  # an n-gram model of other tools
from .scoring.language_model import train_models as train_models  # n-gram models of texts
from .scoring.language_model import PredictableScorer as PredictableScorer  # of such a model

# Classifiers and clusters
from .kernels.scores import balanced as balanced  # weights with which both classes weigh the same
from .kernels.scores import logistic as logistic  # logistic regression, the same in any release
from .kernels.scores import platt as platt  # from scores to log odds
from .scoring.clusters import fit_cluster_model as fit_cluster_model  # a mixture of Gaussians

# Methods that contain others
from .scoring.registry import unit_method as unit_method  # a method, by its name
from .scoring.registry import pack_scorer as pack_scorer  # a scorer as an array
from .scoring.registry import unpack_scorer as unpack_scorer  # the scorer of that array

# Networks: models of transformers, whose weights are safetensors and whose code is its own
from .embed.folders import ModelSetting as ModelSetting  # how messages name a model's setting
from .embed.folders import find as find  # the folder of a model, from the hub too
from .embed.folders import model_files as model_files  # that decide what a model computes
from .embed.folders import transformer_folder as transformer_folder  # checked before it is opened
from .embed.claims import require_own_code as require_own_code  # of a stored configuration
from .core.plan import EmbedPlan as EmbedPlan  # how texts are embedded
from .embed.hardware import resolve as resolve  # device and precision on this machine
from .embed.hardware import seeded as seeded  # torch's random generators, inside a context
from .embed.transformer import TransformerEncoder as TransformerEncoder  # an opened encoder
from .embed.transformer import load_transformer as load_transformer  # open one
from .embed.transformer import open_complete as open_complete  # a model with its head
from .embed.transformer import position_limit as position_limit  # most tokens of a text
from .embed.transformer import token_batches as token_batches  # texts of similar length
from .embed.prediction import Predictor as Predictor  # a language model's logits where needed
from .embed.losses import cross_entropies as cross_entropies  # of logits and labels
from .kernels.chance import place_keys as place_keys  # random numbers by seed and place
from .core.artifacts import write_bytes as write_bytes  # a whole file or none
