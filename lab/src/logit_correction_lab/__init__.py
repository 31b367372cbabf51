"""The laboratory of logit-correction: published and planted data sets, grids of runs, their runner and tables."""

#: Name -> dotted path and one line; the entry point of the group ``logit_correction.sources``.
SOURCES = {
    "ColoredMNIST": (
        "logit_correction_lab.sources.colored_mnist.ColoredMNIST",
        "MNIST in colours that predict the digit in training",
    ),
    "CorruptedCIFAR10": (
        "logit_correction_lab.sources.ccifar10.CorruptedCIFAR10",
        "CIFAR-10 in corruptions that predict the class in training",
    ),
    "Waterbirds": (
        "logit_correction_lab.sources.photos.Waterbirds",
        "birds of land and water before land or water; your copy of the files",
    ),
    "CelebA": (
        "logit_correction_lab.sources.photos.CelebA",
        "faces: most blond people are women; your copy of the files",
    ),
    "BiasedFFHQ": (
        "logit_correction_lab.sources.photos.BiasedFFHQ",
        "faces: gender predicts age; your copy of the files",
    ),
    "CivilComments": (
        "logit_correction_lab.sources.civilcomments.CivilComments",
        "comments, toxic or not, judged on 16 overlapping groups; your copy of the file",
    ),
    "Planted": (
        "logit_correction_lab.sources.planted.Planted",
        "small sets with a planted shortcut, their controls, and plain ones; `set` chooses",
    ),
    "Wild": (
        "logit_correction_lab.sources.wild.Wild",
        "real mails, faces in words and people in tables, nothing planted; your copy of the files",
    ),
    "StandIn": (
        "logit_correction_lab.sources.stand_ins.StandIn",
        "stand-ins for the paper's photos and comments, which are not those; your copy of the files",
    ),
}
