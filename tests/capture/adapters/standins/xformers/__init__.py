"""Stands for the package xformers."""
