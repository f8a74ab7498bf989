"""Joint models: outputs of several kinds that explain each other, rules with weights, and latent parts."""

import numpy as np

from ssvm_dsl import (
    AllOf,
    AnyOf,
    Arborescence,
    Dim,
    Edges,
    Factor,
    Hamming,
    Iff,
    Implies,
    Input,
    Label,
    Latent,
    Model,
    Same,
)


class EntitiesAndRelations(Model):
    """Only a person works for a firm: the kinds of entities and of their relations are found together."""

    T, M = Dim(), Dim()
    t, m = T.index(), M.index()
    x, f = Input(T, 3), Input(M, 2)
    e = Edges(M, over=T)
    ent = Label(T, ["other", "person", "firm"])
    rel = Label(M, ["none", "works for"])
    what = Factor(ent[t], features=x[t])
    which = Factor(rel[m], features=f[m])
    fits = Implies(rel[m].is_("works for"), AllOf(ent[e[m, 0]].is_("person"), ent[e[m, 1]].is_("firm")))
    loss = Hamming(ent) + Hamming(rel)


class TagAndParse(Model):
    """Tags of words and their heads: which tags govern is learnt."""

    T, K = Dim(), Dim(3)
    i, j, k = *T.index(2), K.index()
    x, z = Input(T, T, 2), Input(T, 2)
    tag = Label(T, ["noun", "verb", "other"])
    head = Label(T, over=T, null=True)
    word = Factor(tag[i], features=z[i])
    arc = Factor(head[i].is_(j), features=x[i, j])
    governs = Factor(AllOf(head[i].is_(j), tag[j].is_(k)), per=k)
    tree = Arborescence(head)
    loss = Hamming(tag) + Hamming(head)


class Scene(Model):
    """What a picture shows, and what each of its regions: grass goes with a meadow."""

    R, M = Dim(), Dim()
    r, m = R.index(), M.index()
    x, z = Input(R, 2), Input(2)
    e = Edges(M, over=R)
    scene = Label(["meadow", "street", "room"])
    region = Label(R, ["grass", "car", "chair"])
    whole = Factor(scene, features=z)
    part = Factor(region[r], features=x[r])
    near = Factor((region[e[m, 0]], region[e[m, 1]]))
    both = Factor((scene, region[r]))
    loss = Hamming(scene) + Hamming(region)


class Smokers(Model):
    """Markov logic: smoking causes cancer, and friends smoke alike; each rule has a learnt weight."""

    N = Dim()
    a, b = N.index(2)
    z = Input(N, 2)
    friend = Input(N, N)
    smokes = Label(N, 2)
    cancer = Label(N, 2)
    habit = Factor(smokes[a].is_(1), features=z[a])
    causes = Factor(Implies(smokes[a].is_(1), cancer[a].is_(1)))
    rare = Factor(cancer[a].is_(1))
    alike = Factor(Iff(smokes[a].is_(1), smokes[b].is_(1)), where=(a < b) & friend[a, b])
    loss = Hamming(smokes) + Hamming(cancer)


class Votes(Model):
    """How much friends vote alike, with one weight for all of them."""

    N = Dim()
    a, b = N.index(2)
    friend = Input(N, N)
    z = Input(N, 3)
    vote = Label(N, ["left", "right"])
    own = Factor(vote[a], features=z[a])
    alike = Factor(Same(vote[a], vote[b]), where=(a < b) & friend[a, b])
    loss = Hamming(vote)


class LatentTopics(Model):
    """The class of a document goes with the topics of its parts, which nobody has marked."""

    N = Dim()
    n = N.index()
    x = Input(N, 3)
    y = Label(["sports", "arts"])
    topic = Latent(N, 3)
    words = Factor(topic[n], features=x[n])
    flow = Factor((topic[n], topic[n + 1]))
    about = Factor((y, topic[n]))
    loss = Hamming(y)


class MultipleInstances(Model):
    """A bag is positive if one of its instances is."""

    N = Dim()
    n = N.index()
    x = Input(N, 3)
    bag = Label(2)
    one = Latent(N, 2)
    each = Factor(one[n], features=x[n])
    any = Iff(bag.is_(1), AnyOf(one[n].is_(1), over=n))
    loss = Hamming(bag)


def friends(rng, n):
    known = np.triu(rng.random((n, n)) < 0.5, 1)
    return (known + known.T).astype(float)


def pair_edges(rng, n):
    return np.array([rng.choice(n, size=2, replace=False) for _ in range(n - 1)])


def document(rng, n):
    """Return a document whose parts come from three topics, of which one prevails."""
    shares = rng.permutation([0.7, 0.2, 0.1])
    return {"x": 2 * np.eye(3)[rng.choice(3, size=n, p=shares)] + 0.5 * rng.normal(size=(n, 3))}


def bag(rng, n):
    """Return a bag of instances, of which few are positive."""
    positive = 2 * (rng.random(n) < 0.15) + 0.3 * rng.normal(size=n)
    return {"x": np.c_[positive, rng.normal(size=n), np.ones(n)]}


#: For each model a function that draws the inputs of an example of n positions, and true weights where random ones
#: would say little.
MODELS = {
    EntitiesAndRelations: (
        lambda rng, n: {"x": rng.normal(size=(n, 3)), "f": rng.normal(size=(n - 1, 2)), "e": pair_edges(rng, n)},
        {},
    ),
    TagAndParse: (
        lambda rng, n: {"x": rng.normal(size=(n - 1, n - 1, 2)), "z": rng.normal(size=(n - 1, 2))},
        {"governs": [-0.5, 1.0, -1.0]},
    ),
    Scene: (
        lambda rng, n: {"x": rng.normal(size=(n, 2)), "z": rng.normal(size=2), "e": pair_edges(rng, n)},
        {"both": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]},
    ),
    Smokers: (
        lambda rng, n: {"z": np.c_[rng.normal(size=n - 1), np.ones(n - 1)], "friend": friends(rng, n - 1)},
        {"habit": [1.5, 0.8], "causes": 1.0, "rare": -0.6, "alike": 0.5},
    ),
    Votes: (lambda rng, n: {"z": rng.normal(size=(n, 3)), "friend": friends(rng, n)}, {"alike": 0.5}),
    LatentTopics: (
        document,
        {"words": 2 * np.eye(3), "flow": np.eye(3) / 5, "about": [[1.0, 0.0, -1.0], [-1.0, 0.0, 1.0]]},
    ),
    MultipleInstances: (bag, {"each": [[0.0, 0.0, 0.0], [1.0, 0.0, -1.0]]}),
}
