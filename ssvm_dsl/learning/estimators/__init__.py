"""What users fit: the scikit-learn estimators, their parameters, weights and saved files.

The functions that ``svm.predict(X)`` calls, for a chain of a length that an earlier fit or prediction has prepared::

    StructuredSVM.predict                       svm
      StructuredEstimator._answers              structured
        ground                                  compiler.ground: data become a program and parameters
          ShapeCache.read                       compiler.prepared: what the model keeps of a shape
          PreparedShape.parameters              the same, with the features of these data
        open_session                            inference.session: the backend that was planned, opened before
        solve_batch                             inference.batch
          ParameterMap.fill_examples            scores: theta = Phi w
          CheckedSession.solve                  inference.checked: time, memory, errors
            ForestSession.solve                 ssvm_backends.trees: the plug-in
              viterbi                           its kernel
            Verifier.__call__                   inference.verification: the labelling is scored again
        labellings                              learning.answers
          Layout.decode                         compiler.layout: labels as users write them

and those of ``svm.fit(X, Y)``, with the trainer ``bcfw``::

    StructuredSVM.fit                           svm
      fit                                       fitting.fit
        ground                                  compiler.ground: with the labels and the loss
        planned_run                             fitting.training: checks, regulariser
          open_session                          inference.session: the backend of the oracle
          Risk.problem                          learning.risks.kinds: the training problem
        run_trainer                             fitting.training
          train                                 learning.driver.fit: the loop
            Resumable.steps                     ssvm_trainers: the plug-in yields iterates
              BCFWRun.exact_pass                planes.bcfw: a kernel that calls the backend's compiled oracle
              MarginProblem.evaluate            learning.risks.hinges.margin: the objective, by the session
                CheckedSession.solve            inference.checked, as above
            FitRun.learn                        learning.driver.fit: what the trainer claims is checked
            FitRun.finish                       the last look, at the weights that are returned
        record                                  fitting.fit: weights, certificate and report, for the estimator
"""
