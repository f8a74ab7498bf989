"""The experiments, a module for each family; ``catalogue`` lists all of them by name.

======================================================  ==============================================================
text                                                    modules
======================================================  ==============================================================
Ratliff, Bagnell, Zinkevich, subgradient methods        ``ocr``, ``ladar``, ``value_functions``; its theorems:
                                                        ``regret``, ``constant_steps``, ``approximate_steps``,
                                                        ``regret_values``
Gaertner, Vembu, training by counting                   ``counting``
Schmidt, structural extensions of SVMs                  ``solvers``, ``multiclass``
Iglesias Garcia, thesis on sequences                    ``sequences``, ``blocks``, ``stripes``
Meshi, Sontag, Jaakkola, Globerson, dual losses         ``dual_losses``, ``dual_loss_claims``, ``dual_loss_soft``; the
                                                        methods compared: ``dual_loss_methods``
======================================================  ==============================================================
"""
