"""Choose parameters by cross-validation, and judge the choice by nested cross-validation."""
